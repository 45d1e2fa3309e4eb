// The C interface over Decoder. Owns the translation of structs, statuses and exceptions; must not
// decide anything that Decoder decides. Built into libsplitwave.so only (scripts/cmake exports its
// symbols alone); called by C callers, python/ and tests/c_api.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "splitwave/decoder.h"
#include "splitwave/splitwave.h"

struct splitwave_decoder {
  splitwave::Decoder decoder;
};

namespace splitwave {
namespace {

constexpr std::size_t k_message_bytes_max = 2048;
// Plans are kept for every row count: about a kilobyte each.
constexpr int k_rows_max = SPLITWAVE_ROWS_MAX;

// Fixed memory: a refusal must not fail for want of memory.
thread_local char last_error[k_message_bytes_max] = "";

splitwave_status fail(splitwave_status status, const char* message) {
  std::snprintf(last_error, sizeof last_error, "%s", message);
  return status;
}

splitwave_status fail(const Error& error) {
  return fail(error.kind == ErrorKind::bad_input     ? SPLITWAVE_ERROR_BAD_INPUT
              : error.kind == ErrorKind::environment ? SPLITWAVE_ERROR_ENVIRONMENT
                                                     : SPLITWAVE_ERROR_INTERNAL,
              error.message.c_str());
}

// Runs body, which returns a status; no exception leaves.
template <class Body>
splitwave_status guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(SPLITWAVE_ERROR_ENVIRONMENT, "out of host memory");
  } catch (const std::exception& e) {
    return fail(SPLITWAVE_ERROR_INTERNAL, e.what());
  } catch (...) {
    return fail(SPLITWAVE_ERROR_INTERNAL, "an exception of unknown type");
  }
}

// The struct's size and version as the caller's header gave them. There is one version of each so
// far; a later one reads the older sizes here and keeps the defaults for the rest.
template <class Struct>
Status check_struct(const char* name, const Struct* given, std::uint32_t version) {
  if (given == nullptr) return bad_input(std::string(name) + " = null: a pointer is required");
  if (given->version != version) {
    return bad_input(std::string(name) + ".version = " + std::to_string(given->version) +
                     ": this library (ABI " + std::to_string(SPLITWAVE_ABI_VERSION) +
                     ") knows 1 to " + std::to_string(version) +
                     "; fill the struct with its _init function, or load a newer library");
  }
  if (given->struct_size != sizeof(Struct)) {
    return bad_input(std::string(name) + ".struct_size = " + std::to_string(given->struct_size) +
                     ": version " + std::to_string(version) + " has " +
                     std::to_string(sizeof(Struct)) +
                     " bytes; fill the struct with its _init function");
  }
  return {};
}

Status check_range(const char* field, std::int64_t value, std::int64_t least, std::int64_t most,
                   const char* meaning) {
  if (value >= least && value <= most) return {};
  return bad_input(std::string(field) + " = " + std::to_string(value) + ": " +
                   std::to_string(least) + " to " + std::to_string(most) + " is required (" +
                   meaning + ")");
}

Expected<ProblemSpec> spec_of(const splitwave_problem* given) {
  if (const Status s = check_struct("problem", given, SPLITWAVE_PROBLEM_VERSION); !s) {
    return s.error();
  }
  const splitwave_problem& p = *given;
  for (const Status& s : {
           check_range("format", p.format, 0, 1, "0 V3.2, 1 V4"),
           check_range("numerics", p.numerics, 0, 1, "0 throughput, 1 latency"),
           check_range("operands", p.operands, 0, 1, "0 bf16, 1 f16"),
           check_range("rows_max", p.rows_max, 0, k_rows_max, "rows of one call"),
       }) {
    if (!s) return s.error();
  }
  ProblemSpec spec;
  spec.format = static_cast<KvFormat>(p.format);
  spec.heads = p.heads;
  spec.main_width = p.main_width;
  spec.extra_width = p.extra_width;
  spec.rows_max = p.rows_max;
  spec.numerics = static_cast<NumericsClass>(p.numerics);
  spec.operands = static_cast<OperandType>(p.operands);
  spec.value_range_max = p.value_range_max;
  return spec;
}

Expected<DecoderOptions> options_of(const splitwave_options* given) {
  DecoderOptions options;
  if (given == nullptr) return options;
  if (const Status s = check_struct("options", given, SPLITWAVE_OPTIONS_VERSION); !s) {
    return s.error();
  }
  const splitwave_options& o = *given;
  for (const Status& s : {
           check_range("backend", o.backend, 0, 2, "0 auto, 1 cpu, 2 cuda"),
           check_range("read_environment", o.read_environment, 0, 1, "no, yes"),
           check_range("owns_workspace", o.owns_workspace, 0, 1, "no, yes"),
           check_range("reserved", o.reserved, 0, 0, "of no use yet"),
       }) {
    if (!s) return s.error();
  }
  options.backend = static_cast<Backend>(o.backend);
  options.device = o.device;
  options.threads = o.threads;
  options.read_environment = o.read_environment != 0;
  options.owns_workspace = o.owns_workspace != 0;
  if (o.plan != nullptr) {
    Expected<PlanOverrides> overrides = parse_plan_overrides(o.plan);
    if (!overrides) return overrides.error();
    options.overrides = std::move(*overrides);
  }
  return options;
}

Status check_rows(const Decoder& decoder, std::int32_t rows) {
  return check_range("rows", rows, 0, decoder.spec().rows_max, "rows_max of the problem");
}

CacheView cache_of(const splitwave_cache& cache) {
  return {.base = static_cast<const std::uint8_t*>(cache.base),
          .pages = cache.pages,
          .page_size = cache.page_size,
          .page_stride_bytes = cache.page_stride_bytes};
}

IndexList list_of(const splitwave_index_list& list) {
  return {.slots = list.slots, .row_stride = list.row_stride, .lengths = list.lengths};
}

DecodeCall call_of(const splitwave_decode_call& given) {
  DecodeCall call;
  call.rows = given.rows;
  call.q = given.q;
  call.q_row_stride = given.q_row_stride;
  call.q_head_stride = given.q_head_stride;
  call.main_cache = cache_of(given.main_cache);
  call.extra_cache = cache_of(given.extra_cache);
  call.main_list = list_of(given.main_list);
  call.extra_list = list_of(given.extra_list);
  call.softmax_scale = given.softmax_scale;
  call.sink = given.sink;
  call.out = given.out;
  call.out_row_stride = given.out_row_stride;
  call.out_head_stride = given.out_head_stride;
  call.lse = given.lse;
  call.lse_row_stride = given.lse_row_stride;
  call.stream = given.stream;
  return call;
}

void fill(splitwave_plan_info& info, const Plan& plan, const VariantTraits& traits) {
  info.mode = static_cast<std::int32_t>(plan.mode);
  info.numerics = static_cast<std::int32_t>(plan.numerics);
  info.chunk_rows = plan.chunk_rows;
  info.block_heads = plan.block_heads;
  info.head_blocks = plan.head_blocks;
  info.tile_rows = plan.tile_rows;
  info.prefetch = plan.prefetch;
  info.chunks = plan.chunks;
  info.splits = plan.splits;
  info.ctas_per_sm = plan.ctas_per_sm;
  info.waves = plan.waves;
  info.provenance = static_cast<std::int32_t>(plan.provenance);
  info.ctas = plan.ctas;
  info.utilization = plan.utilization;
  info.predicted_us = plan.predicted_us;
  info.variant = plan.variant.c_str();
  info.numerics_class = traits.numerics_class.c_str();
  info.isa = traits.isa.c_str();
  info.warps = traits.warps;
  info.stages = traits.stages;
  info.threads = traits.threads;
  info.registers = traits.registers;
  info.shared_bytes = traits.shared_bytes;
  info.reasons = static_cast<std::int32_t>(plan.reasons.size());
}

splitwave_variant variant_of(const VariantListing& listing) {
  const VariantTraits& traits = listing.traits;
  splitwave_variant variant = {};
  variant.struct_size = sizeof variant;
  variant.version = SPLITWAVE_VARIANT_VERSION;
  variant.runnable = listing.runnable ? 1 : 0;
  variant.format = static_cast<std::int32_t>(traits.format);
  variant.operands = static_cast<std::int32_t>(traits.operands);
  variant.block_heads = traits.block_heads;
  variant.tile_rows = traits.tile_rows;
  variant.warps = traits.warps;
  variant.stages = traits.stages;
  variant.threads = traits.threads;
  variant.registers = traits.registers;
  variant.shared_bytes = traits.shared_bytes;
  variant.ctas_per_sm = traits.ctas_per_sm;
  variant.is_experiment_arm = traits.is_experiment_arm ? 1 : 0;
  variant.name = traits.name.c_str();
  variant.backend = traits.backend.c_str();
  variant.numerics_class = traits.numerics_class.c_str();
  variant.isa = traits.isa.c_str();
  variant.why_not = listing.why_not.c_str();
  return variant;
}

// The numbers in the header are the enums' own.
static_assert(static_cast<int>(KvFormat::v32) == SPLITWAVE_FORMAT_V32 &&
              static_cast<int>(KvFormat::v4) == SPLITWAVE_FORMAT_V4);
static_assert(static_cast<int>(NumericsClass::throughput) == SPLITWAVE_CLASS_THROUGHPUT &&
              static_cast<int>(NumericsClass::latency) == SPLITWAVE_CLASS_LATENCY);
static_assert(static_cast<int>(OperandType::bf16) == SPLITWAVE_OPERANDS_BF16 &&
              static_cast<int>(OperandType::f16) == SPLITWAVE_OPERANDS_F16);
static_assert(static_cast<int>(Backend::auto_detect) == SPLITWAVE_BACKEND_AUTO &&
              static_cast<int>(Backend::cpu) == SPLITWAVE_BACKEND_CPU &&
              static_cast<int>(Backend::cuda) == SPLITWAVE_BACKEND_CUDA);
static_assert(static_cast<int>(SplitMode::exact) == SPLITWAVE_MODE_EXACT &&
              static_cast<int>(SplitMode::free) == SPLITWAVE_MODE_FREE);
static_assert(static_cast<int>(Provenance::modelled) == SPLITWAVE_MODELLED &&
              static_cast<int>(Provenance::measured) == SPLITWAVE_MEASURED &&
              static_cast<int>(Provenance::forced) == SPLITWAVE_FORCED);

}  // namespace
}  // namespace splitwave

// ---- the exported functions, in the header's order
// -----------------------------------------------

uint32_t splitwave_abi_version(void) { return SPLITWAVE_ABI_VERSION; }

const char* splitwave_version(void) { return SPLITWAVE_VERSION_TEXT; }

const char* splitwave_last_error(void) { return splitwave::last_error; }

const char* splitwave_status_name(splitwave_status status) {
  switch (status) {
    case SPLITWAVE_OK:
      return "ok";
    case SPLITWAVE_ERROR_BAD_INPUT:
      return "bad_input";
    case SPLITWAVE_ERROR_ENVIRONMENT:
      return "environment";
    case SPLITWAVE_ERROR_INTERNAL:
      return "internal";
    default:
      return "unknown";
  }
}

splitwave_status splitwave_decoder_create(const splitwave_problem* problem,
                                          const splitwave_options* options,
                                          splitwave_decoder** decoder) {
  using namespace splitwave;
  if (decoder == nullptr) {
    return fail(SPLITWAVE_ERROR_BAD_INPUT, "decoder = null: a place for the handle is required");
  }
  *decoder = nullptr;
  return guarded([&]() -> splitwave_status {
    Expected<ProblemSpec> spec = spec_of(problem);
    if (!spec) return fail(spec.error());
    Expected<DecoderOptions> read = options_of(options);
    if (!read) return fail(read.error());
    Expected<Decoder> made = Decoder::create(*spec, *read);
    if (!made) return fail(made.error());
    *decoder = new splitwave_decoder{std::move(*made)};
    return SPLITWAVE_OK;
  });
}

void splitwave_decoder_destroy(splitwave_decoder* decoder) { delete decoder; }

splitwave_status splitwave_decoder_get_info(const splitwave_decoder* decoder,
                                            splitwave_decoder_info* info) {
  using namespace splitwave;
  return guarded([&]() -> splitwave_status {
    if (decoder == nullptr) return fail(SPLITWAVE_ERROR_BAD_INPUT, "decoder = null");
    if (const Status s = check_struct("info", info, SPLITWAVE_DECODER_INFO_VERSION); !s) {
      return fail(s.error());
    }
    const Decoder& made = decoder->decoder;
    info->backend = static_cast<std::int32_t>(made.backend());
    info->device_arch = made.device().arch;
    info->device_sms = made.device().sm_count;
    info->rows_max = made.spec().rows_max;
    info->workspace_bytes_own = made.workspace_bytes();
    info->workspace_bytes_caller = made.caller_workspace_bytes();
    info->device_name = made.device().product.c_str();
    info->backend_reason = made.backend_reason().c_str();
    return SPLITWAVE_OK;
  });
}

splitwave_status splitwave_decoder_get_plan(const splitwave_decoder* decoder, int32_t rows,
                                            splitwave_plan_info* info) {
  using namespace splitwave;
  return guarded([&]() -> splitwave_status {
    if (decoder == nullptr) return fail(SPLITWAVE_ERROR_BAD_INPUT, "decoder = null");
    if (const Status s = check_struct("info", info, SPLITWAVE_PLAN_INFO_VERSION); !s) {
      return fail(s.error());
    }
    if (const Status s = check_rows(decoder->decoder, rows); !s) return fail(s.error());
    fill(*info, decoder->decoder.plan_for(rows), decoder->decoder.traits_for(rows));
    return SPLITWAVE_OK;
  });
}

const char* splitwave_decoder_plan_reason(const splitwave_decoder* decoder, int32_t rows,
                                          int32_t index) {
  if (decoder == nullptr || rows < 0 || rows > decoder->decoder.spec().rows_max) return nullptr;
  const auto& reasons = decoder->decoder.plan_for(rows).reasons;
  if (index < 0 || static_cast<std::size_t>(index) >= reasons.size()) return nullptr;
  return reasons[static_cast<std::size_t>(index)].c_str();
}

splitwave_status splitwave_visit_variants(splitwave_visitor visit, void* user) {
  using namespace splitwave;
  if (visit == nullptr) return fail(SPLITWAVE_ERROR_BAD_INPUT, "visit = null");
  return guarded([&]() -> splitwave_status {
    for (const VariantListing& listing : list_variants()) {
      const splitwave_variant variant = variant_of(listing);
      if (visit(&variant, user) != 0) break;
    }
    return SPLITWAVE_OK;
  });
}

splitwave_status splitwave_decode(splitwave_decoder* decoder, const splitwave_decode_call* call) {
  using namespace splitwave;
  return guarded([&]() -> splitwave_status {
    if (decoder == nullptr) return fail(SPLITWAVE_ERROR_BAD_INPUT, "decoder = null");
    if (const Status s = check_struct("call", call, SPLITWAVE_DECODE_CALL_VERSION); !s) {
      return fail(s.error());
    }
    Decoder& made = decoder->decoder;
    if (call->workspace == nullptr) {
      const Status status = made.run(call_of(*call));
      return status ? SPLITWAVE_OK : fail(status.error());
    }
    if (call->workspace_bytes < made.caller_workspace_bytes()) {
      return fail(bad_input("workspace_bytes = " + std::to_string(call->workspace_bytes) +
                            ": at least workspace_bytes_caller = " +
                            std::to_string(made.caller_workspace_bytes()) + " is required"));
    }
    const Status status = made.run(call_of(*call), call->workspace);
    return status ? SPLITWAVE_OK : fail(status.error());
  });
}

splitwave_status splitwave_merge(uint16_t* out_a, float* lse_a, const uint16_t* out_b,
                                 const float* lse_b, int64_t n) {
  using namespace splitwave;
  return guarded([&]() -> splitwave_status {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / (2 * k_value_dims);
    if (const Status s = check_range("n", n, 0, most, "rows * heads"); !s) return fail(s.error());
    if (n == 0) return SPLITWAVE_OK;
    if (out_a == nullptr || lse_a == nullptr || out_b == nullptr || lse_b == nullptr) {
      return fail(SPLITWAVE_ERROR_BAD_INPUT,
                  "out_a, lse_a, out_b and lse_b: none may be null when n > 0");
    }
    merge_partials(out_a, lse_a, out_b, lse_b, n);
    return SPLITWAVE_OK;
  });
}
