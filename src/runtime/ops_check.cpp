// The rules, in the order of ops.h's fields. A list of rules is checked in order; the first broken
// one is the answer.
#include "runtime/ops_check.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>

namespace splitwave {
namespace {

Error refused(const std::string& field, std::int64_t value, const std::string& works) {
  return bad_input(field + " = " + std::to_string(value) + ": " + works);
}

Status first_error(std::initializer_list<Status> rules) {
  for (const Status& rule : rules) {
    if (!rule) return rule;
  }
  return {};
}

Status in_range(const char* field, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return {};
  return refused(field, value,
                 std::to_string(least) + " to " + std::to_string(most) + " is required");
}

Status pointer(const char* field, const void* p, std::uintptr_t alignment) {
  if (p == nullptr) return bad_input(std::string(field) + " = null: a pointer is required");
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  if (address % alignment == 0) return {};
  return refused(field, static_cast<std::int64_t>(address),
                 "the address must be a multiple of " + std::to_string(alignment));
}
Status optional_pointer(const char* field, const void* p, std::uintptr_t alignment) {
  return p == nullptr ? Status{} : pointer(field, p, alignment);
}

Status stride(const char* field, std::int64_t value, std::int64_t least, std::int64_t unit) {
  if (value >= least && value % unit == 0) return {};
  return refused(field, value,
                 "at least " + std::to_string(least) +
                     (unit > 1 ? " and a multiple of " + std::to_string(unit) : std::string()) +
                     " is required");
}

// A pool of pages. unit: what the page stride must be a multiple of. Names are put together only
// for a refusal: success allocates nothing.
Status pool(const char* name, const void* base, std::int64_t pages, int page_size,
            std::int64_t page_stride_bytes, std::int64_t row_bytes_each, std::int64_t unit) {
  const auto field = [name](const char* suffix) { return std::string(name) + suffix; };
  if (pages < 0) return refused(field(".pages"), pages, "0 or more is required");
  if (page_size < 1) {
    return refused(field(".page_size"), page_size, "1 row a page or more is required");
  }
  const std::int64_t least = page_size * row_bytes_each;
  if (page_stride_bytes < least || page_stride_bytes % unit != 0) {
    return stride(field(".page_stride_bytes").c_str(), page_stride_bytes, least, unit);
  }
  if (pages > std::numeric_limits<std::int64_t>::max() / page_stride_bytes) {
    return refused(field(".pages"), pages, "that many pages of this stride cannot be addressed");
  }
  const bool is_fine = base != nullptr && reinterpret_cast<std::uintptr_t>(base) % 16 == 0;
  return pages == 0 || is_fine ? Status{} : pointer(field(".base").c_str(), base, 16);
}

Status rope_table(const RopeTable& table, const std::int32_t* positions, bool needs_positions) {
  if (table.cos_sin == nullptr) return {};
  return first_error({pointer("table.cos_sin", table.cos_sin, 4),
                      in_range("table.positions", table.positions, 1, std::int64_t{1} << 31),
                      needs_positions ? pointer("positions", positions, 4) : Status{}});
}

}  // namespace

Status check_indexer_spec(const IndexerSpec& spec) {
  return first_error({in_range("keys", static_cast<int>(spec.keys), 0, 2),
                      in_range("query", static_cast<int>(spec.query), 0, 1),
                      in_range("heads", spec.heads, 1, k_indexer_heads_max),
                      in_range("rows_max", spec.rows_max, 0, 1 << 20),
                      in_range("length_max", spec.length_max, 1, k_topk_length_max),
                      in_range("k_max", spec.k_max, 1, k_topk_max)});
}

namespace {

// Everything of a LogitsCall but the logits themselves.
Status check_logits_inputs(const IndexerSpec& spec, const LogitsCall& call) {
  const IndexerFormat stored = spec.query == IndexerQuery::bf16 ? IndexerFormat::bf16 : spec.keys;
  const std::int64_t q_bytes = std::int64_t{spec.heads} * indexer_value_bytes(stored);
  const bool has_scales = stored == IndexerFormat::fp4;
  const std::int64_t table_width =
      (spec.length_max + call.keys.page_size - 1) / std::max(call.keys.page_size, 1);
  return first_error({in_range("rows", call.rows, 0, spec.rows_max), pointer("q", call.q, 16),
                      stride("q_row_stride_bytes", call.q_row_stride_bytes, q_bytes, 16),
                      has_scales ? pointer("q_scales", call.q_scales, 1) : Status{},
                      has_scales ? stride("q_scales_row_stride", call.q_scales_row_stride,
                                          std::int64_t{spec.heads} * k_indexer_fp4_scales, 1)
                                 : Status{},
                      pointer("weights", call.weights, 4),
                      stride("weights_row_stride", call.weights_row_stride, spec.heads, 1),
                      pool("keys", call.keys.base, call.keys.pages, call.keys.page_size,
                           call.keys.page_stride_bytes, indexer_row_bytes(spec.keys), 16),
                      pointer("key_pages.pages", call.key_pages.pages, 4),
                      stride("key_pages.row_stride", call.key_pages.row_stride,
                             call.rows > 1 ? table_width : 0, 1),
                      pointer("lengths", call.lengths, 4)});
}

}  // namespace

Status check_logits_call(const IndexerSpec& spec, const LogitsCall& call) {
  if (call.rows == 0) return {};
  return first_error({check_logits_inputs(spec, call), pointer("logits", call.logits, 4),
                      stride("logits_row_stride", call.logits_row_stride,
                             call.rows > 1 ? spec.length_max : 0, 1)});
}

Status check_top_k_call(const IndexerSpec& spec, const TopKCall& call) {
  return first_error(
      {in_range("rows", call.rows, 0, spec.rows_max), in_range("k", call.k, 1, spec.k_max),
       call.rows == 0 ? Status{} : pointer("logits", call.logits, 4),
       stride("logits_row_stride", call.logits_row_stride, call.rows > 1 ? spec.length_max : 0, 1),
       call.rows == 0 ? Status{} : pointer("lengths", call.lengths, 4),
       call.rows == 0 ? Status{} : pointer("indices", call.indices, 4),
       stride("indices_row_stride", call.indices_row_stride, call.rows > 1 ? call.k : 0, 1),
       optional_pointer("counts", call.counts, 4)});
}

Status check_select_call(const IndexerSpec& spec, const SelectCall& call) {
  if (call.logits.rows == 0) return {};
  if (call.logits.logits == nullptr && !spec.owns_logits) {
    return bad_input(
        "logits.logits = null: a pointer is required, or IndexerSpec::owns_logits at creation");
  }
  const Status inputs = call.logits.logits == nullptr ? check_logits_inputs(spec, call.logits)
                                                      : check_logits_call(spec, call.logits);
  if (!inputs) return inputs;
  const std::int64_t pages_most =
      std::numeric_limits<std::int32_t>::max() / std::max(call.kv_page_size, 1);
  const std::int64_t table_width =
      (spec.length_max + call.kv_page_size - 1) / std::max(call.kv_page_size, 1);
  const int rows = call.logits.rows;
  return first_error(
      {in_range("k", call.k, 1, spec.k_max), pointer("kv_pages.pages", call.kv_pages.pages, 4),
       in_range("kv_page_size", call.kv_page_size, 1, std::numeric_limits<std::int32_t>::max()),
       stride("kv_pages.row_stride", call.kv_pages.row_stride, rows > 1 ? table_width : 0, 1),
       in_range("kv_pool_pages", call.kv_pool_pages, 0, pages_most),
       pointer("slots", call.slots, 4),
       stride("slots_row_stride", call.slots_row_stride, rows > 1 ? call.k : 0, 1),
       pointer("counts", call.counts, 4), optional_pointer("indices", call.indices, 4),
       call.indices == nullptr
           ? Status{}
           : stride("indices_row_stride", call.indices_row_stride, rows > 1 ? call.k : 0, 1)});
}

Status check_kv_write_call(const KvWriteCall& call) {
  if (call.rows == 0) return {};
  const bool is_v4 = call.format == KvFormat::v4;
  const std::int64_t nope_dims = is_v4 ? k_v4_nope_dims : k_v32_nope_dims;
  return first_error(
      {in_range("format", static_cast<int>(call.format), 0, 1),
       in_range("rounding", static_cast<int>(call.rounding), 0, 1),
       in_range("rows", call.rows, 0, std::numeric_limits<std::int32_t>::max()),
       pointer("nope", call.nope, 8),
       stride("nope_row_stride", call.nope_row_stride, call.rows > 1 ? nope_dims : 0, 8),
       pointer("rope", call.rope, 8),
       stride("rope_row_stride", call.rope_row_stride, call.rows > 1 ? k_rope_dims : 0, 8),
       rope_table(call.table, call.positions, true), pointer("slots", call.slots, 8),
       pool("cache", call.cache.base, call.cache.pages, call.cache.page_size,
            call.cache.page_stride_bytes, row_bytes(call.format), 8)});
}

Status check_indexer_key_write_call(const IndexerKeyWriteCall& call) {
  if (call.rows == 0) return {};
  return first_error(
      {in_range("format", static_cast<int>(call.format), 0, 2),
       in_range("rounding", static_cast<int>(call.rounding), 0, 1),
       in_range("rows", call.rows, 0, std::numeric_limits<std::int32_t>::max()),
       pointer("keys", call.keys, 8),
       stride("keys_row_stride", call.keys_row_stride, call.rows > 1 ? k_indexer_dims : 0, 8),
       rope_table(call.table, call.positions, true), pointer("slots", call.slots, 8),
       pool("cache", call.cache.base, call.cache.pages, call.cache.page_size,
            call.cache.page_stride_bytes, indexer_row_bytes(call.format), 16)});
}

Status check_indexer_query_call(const IndexerQueryCall& call) {
  if (call.rows == 0) return {};
  const std::int64_t row_dims = std::int64_t{call.heads} * k_indexer_dims;
  return first_error(
      {in_range("format", static_cast<int>(call.format), 0, 2),
       in_range("rows", call.rows, 0, 1 << 24),
       in_range("heads", call.heads, 1, k_indexer_heads_max), pointer("q", call.q, 8),
       stride("q_row_stride", call.q_row_stride, call.rows > 1 ? row_dims : 0, 8),
       pointer("weights", call.weights, 4), rope_table(call.table, call.positions, true),
       pointer("q_out", call.q_out, 16),
       call.format == IndexerFormat::fp4 ? pointer("q_scales_out", call.q_scales_out, 4) : Status{},
       pointer("weights_out", call.weights_out, 4)});
}

Status check_compressor_spec(const CompressorSpec& spec) {
  if (spec.ratio != k_compressor_overlap_ratio && spec.ratio != k_compressor_online_ratio) {
    return refused("ratio", spec.ratio, "4 (with overlap) or 128 (online) is required");
  }
  if (spec.dims != 512 && spec.dims != k_indexer_dims) {
    return refused("dims", spec.dims, "512 (main) or 128 (indexer) is required");
  }
  const bool is_rows = spec.target == CompressorTarget::rows;
  const bool is_main = spec.target == CompressorTarget::v4_cache;
  if (!is_rows && is_main != (spec.dims == 512)) {
    return refused("target", static_cast<int>(spec.target),
                   "v4_cache takes 512 dims, the indexer targets 128, rows either");
  }
  if (spec.hadamard && spec.dims != k_indexer_dims) {
    return refused("hadamard", 1, "only entries of 128 dims are rotated");
  }
  if (!(spec.norm_eps > 0) || !std::isfinite(spec.norm_eps)) {
    return bad_input("norm_eps = " + std::to_string(spec.norm_eps) +
                     ": a positive number is required");
  }
  return first_error({in_range("sequences_max", spec.sequences_max, 0, 1 << 20),
                      in_range("tokens_max", spec.tokens_max, 0, 1 << 24)});
}

Status check_compress_call(const CompressorSpec& spec, const CompressCall& call) {
  if (call.sequences == 0) return {};
  const int channels = spec.ratio == k_compressor_overlap_ratio ? 2 * spec.dims : spec.dims;
  const bool is_rows = spec.target == CompressorTarget::rows;
  const std::int64_t row_bytes_each =
      spec.target == CompressorTarget::v4_cache      ? k_v4_row_bytes
      : spec.target == CompressorTarget::indexer_fp8 ? indexer_row_bytes(IndexerFormat::fp8)
      : spec.target == CompressorTarget::indexer_fp4 ? indexer_row_bytes(IndexerFormat::fp4)
                                                     : indexer_row_bytes(IndexerFormat::bf16);
  if (call.one_token_each && call.tokens != call.sequences) {
    return refused(
        "tokens", call.tokens,
        "one_token_each promises as many tokens as sequences, " + std::to_string(call.sequences));
  }
  return first_error(
      {in_range("sequences", call.sequences, 0, spec.sequences_max),
       in_range("tokens", call.tokens, 0, spec.tokens_max), pointer("offsets", call.offsets, 4),
       pointer("start", call.start, 4), pointer("state_slot", call.state_slot, 4),
       pointer("kv", call.kv, 16), pointer("gate", call.gate, 16),
       stride("token_stride", call.token_stride, call.tokens > 1 ? channels : 0, 4),
       pointer("ape", call.ape, 16), pointer("norm", call.norm, 8),
       rope_table(call.table, nullptr, false), pointer("state", call.state, 16),
       in_range("state_slots", call.state_slots, 0, std::int64_t{1} << 31),
       is_rows ? pointer("rows_out", call.rows_out, 8) : pointer("slots", call.slots, 8),
       is_rows ? stride("rows_out_stride", call.rows_out_stride, call.tokens > 1 ? spec.dims : 0, 8)
               : pool("cache", call.cache.base, call.cache.pages, call.cache.page_size,
                      call.cache.page_stride_bytes, row_bytes_each,
                      spec.target == CompressorTarget::v4_cache ? 8 : 16)});
}

Status check_state_copy_call(const StateCopyCall& call) {
  if (call.count == 0) return {};
  return first_error({in_range("count", call.count, 0, 1 << 24), pointer("slots", call.slots, 4),
                      pointer("state", call.state, 16),
                      in_range("state_slots", call.state_slots, 0, std::int64_t{1} << 31),
                      pointer("buffer", call.buffer, 16)});
}

}  // namespace splitwave
