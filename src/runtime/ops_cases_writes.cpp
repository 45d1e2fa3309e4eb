// Cases of the cache writes and the compressor, compared byte for byte over the whole arena: pools,
// slack between pages, state slots of other sequences, rows that were padded.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "formats/ops_cache.h"
#include "formats/ops_compressor.h"
#include "formats/ops_rows.h"
#include "runtime/ops_cases.h"

namespace splitwave {
namespace {

constexpr int k_table_positions = 512;

RopeTable put_table(OpsArena& arena) {
  std::vector<float> table(std::size_t{k_table_positions} * k_rope_dims);
  fill_rope_table(k_v4_compressed_rope, 0, k_table_positions, table.data());
  return {arena.put(table), k_table_positions};
}

WritableCacheView take_pool(OpsArena& arena, std::int64_t pages, int page_size,
                            std::int64_t row_bytes_each, std::int64_t unit) {
  const std::int64_t stride = (page_size * row_bytes_each + 3 * unit - 1) / unit * unit;
  return {arena.take<std::uint8_t>(pages * stride), pages, page_size, stride};
}

// Distinct live slots for some rows, -1 or out-of-pool ones for the padded.
std::vector<std::int64_t> random_slots(CaseRandom& random, int rows, std::int64_t pool_slots) {
  std::vector<std::int64_t> free_slots(pool_slots);
  std::iota(free_slots.begin(), free_slots.end(), std::int64_t{0});
  std::vector<std::int64_t> slots(rows);
  for (std::int64_t& slot : slots) {
    const int kind = random.below(6);
    if (kind == 0) slot = -1;
    if (kind == 1) slot = random.below(2) == 0 ? pool_slots : std::int64_t{1} << 40;
    if (kind < 2) continue;
    const int at = random.below(static_cast<int>(free_slots.size()));
    slot = free_slots[at];
    free_slots.erase(free_slots.begin() + at);
  }
  return slots;
}

// Rows of bf16 of very different sizes; "nan": some hold a NaN or an infinity.
std::vector<std::uint16_t> random_rows(CaseRandom& random, int rows, int dims,
                                       const std::string& values) {
  std::vector<std::uint16_t> out;
  for (int row = 0; row < rows; ++row) {
    const double scale = values == "tiny"   ? 1e-7
                         : values == "huge" ? 1e30
                                            : std::exp2(random.below(12) - 6);
    std::vector<std::uint16_t> one = random.bf16s(dims, scale);
    if (values == "zero") std::fill(one.begin(), one.end(), random.below(2) == 0 ? 0 : 0x8000);
    if (values == "nan" && row % 3 == 0) one[random.below(dims)] = 0x7FC0;
    if (values == "nan" && row % 3 == 1) one[random.below(dims)] = 0xFF80;
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

std::vector<std::int32_t> random_positions(CaseRandom& random, int rows) {
  std::vector<std::int32_t> positions(rows);
  for (std::int32_t& p : positions) {
    p = random.below(k_table_positions);
    if (random.below(9) == 0) p = random.below(2) == 0 ? -1 : k_table_positions + random.below(9);
  }
  return positions;
}

struct WriteShape {
  std::string what;  // "v4", "v32", "key_fp8", "key_fp4", "key_bf16", "query_fp8", ..
  ScaleRounding rounding = ScaleRounding::power_of_two;
  bool hadamard = false;
  bool has_table = true;
  int page_size = 64;
  std::string values = "normal";
};

// The reference on a copy, the backend on the original, and every byte of both.
template <class Call, class Reference, class Run>
OpsOutcome compare_bytes(const OpsTarget& target, OpsArena& arena, const Call& call,
                         Reference&& reference, Run&& run) {
  OpsArena want(arena);
  reference(moved(call, arena.data(), want.data()));
  const std::string failure = on_backend(target, arena, call, run);
  return {failure.empty() ? first_difference(arena, want) : failure, 0};
}

OpsOutcome run_kv_write(const OpsTarget& target, const WriteShape& shape) {
  CaseRandom random(shape.page_size + shape.values.size());
  constexpr int rows = 37;
  OpsArena arena(4 << 20);
  KvWriteCall call;
  call.format = shape.what == "v4" ? KvFormat::v4 : KvFormat::v32;
  call.rounding = shape.rounding;
  call.rows = rows;
  const int nope = call.format == KvFormat::v4 ? k_v4_nope_dims : k_v32_nope_dims;
  call.nope_row_stride = nope + 64;  // rope follows nope, as in one latent row
  const auto latent = random_rows(random, rows, nope + 64, shape.values);
  call.nope = arena.put(latent);
  call.rope = call.nope + nope;
  call.rope_row_stride = nope + 64;
  if (shape.has_table) call.table = put_table(arena);
  call.positions = arena.put(random_positions(random, rows));
  const std::int64_t pages = 120 / shape.page_size + 2;
  call.cache = take_pool(arena, pages, shape.page_size, row_bytes(call.format), 8);
  call.slots = arena.put(random_slots(random, rows, pages * shape.page_size));
  Expected<CacheWriter> writer = CacheWriter::create(target.options);
  if (!writer) return {writer.error().message, 0};
  return compare_bytes(target, arena, call, reference_write_kv,
                       [&](const KvWriteCall& c) { return writer->write_kv(c); });
}

IndexerFormat format_named(const std::string& what) {
  return what.ends_with("fp8")   ? IndexerFormat::fp8
         : what.ends_with("fp4") ? IndexerFormat::fp4
                                 : IndexerFormat::bf16;
}

OpsOutcome run_key_write(const OpsTarget& target, const WriteShape& shape) {
  CaseRandom random(shape.page_size * 3 + shape.values.size());
  constexpr int rows = 41;
  OpsArena arena(4 << 20);
  IndexerKeyWriteCall call;
  call.format = format_named(shape.what);
  call.rounding = shape.rounding;
  call.hadamard = shape.hadamard;
  call.rows = rows;
  call.keys_row_stride = 128;
  call.keys = arena.put(random_rows(random, rows, 128, shape.values));
  if (shape.has_table) call.table = put_table(arena);
  call.positions = arena.put(random_positions(random, rows));
  const std::int64_t pages = 120 / shape.page_size + 2;
  call.cache = take_pool(arena, pages, shape.page_size, indexer_row_bytes(call.format), 16);
  call.slots = arena.put(random_slots(random, rows, pages * shape.page_size));
  Expected<CacheWriter> writer = CacheWriter::create(target.options);
  if (!writer) return {writer.error().message, 0};
  return compare_bytes(target, arena, call, reference_write_indexer_keys,
                       [&](const IndexerKeyWriteCall& c) { return writer->write_indexer_keys(c); });
}

OpsOutcome run_query(const OpsTarget& target, const WriteShape& shape) {
  CaseRandom random(7 + shape.values.size());
  constexpr int rows = 9;
  OpsArena arena(4 << 20);
  IndexerQueryCall call;
  call.format = format_named(shape.what);
  call.hadamard = shape.hadamard;
  call.rows = rows;
  call.heads = shape.page_size == 64 ? 64 : 5;
  const int row_dims = call.heads * k_indexer_dims;
  call.q_row_stride = row_dims;
  call.q = arena.put(random_rows(random, rows, row_dims, shape.values));
  call.weights = arena.put(random.floats(std::size_t{rows} * call.heads));
  if (shape.has_table) call.table = put_table(arena);
  call.positions = arena.put(random_positions(random, rows));
  call.q_out = arena.take<std::uint8_t>(std::size_t{rows} * call.heads * 256);
  call.q_scales_out = arena.take<std::uint8_t>(std::size_t{rows} * call.heads * 4);
  call.weights_out = arena.take<float>(std::size_t{rows} * call.heads);
  Expected<CacheWriter> writer = CacheWriter::create(target.options);
  if (!writer) return {writer.error().message, 0};
  return compare_bytes(
      target, arena, call, reference_prepare_indexer_queries,
      [&](const IndexerQueryCall& c) { return writer->prepare_indexer_queries(c); });
}

OpsCase write_case(const WriteShape& shape) {
  return {"cache_write",
          {{"what", shape.what},
           {"rounding", shape.rounding == ScaleRounding::exact ? "exact" : "power_of_two"},
           {"hadamard", shape.hadamard ? "yes" : "no"},
           {"rope", shape.has_table ? "table" : "applied"},
           {"page_size", std::to_string(shape.page_size)},
           {"values", shape.values}},
          [shape](const OpsTarget& target) {
            if (shape.what.starts_with("v")) return run_kv_write(target, shape);
            return shape.what.starts_with("key") ? run_key_write(target, shape)
                                                 : run_query(target, shape);
          }};
}

// ---- the compressor -------------------------------------------------------------------------

struct CompressShape {
  CompressorSpec spec;
  std::string cut;  // how each sequence's tokens are spread over calls: "steps", "whole", "mixed"
};

struct CompressData {
  OpsArena arena;
  CompressorSpec spec;
  CompressCall call;  // kv and gate of the current call, refilled for each
  static constexpr int k_sequences = 7;
  static constexpr std::int64_t k_call_tokens = 560;
  std::int64_t positions[k_sequences];  // next position of each
  float* kv;
  float* gate;
  std::int32_t* offsets;
  std::int32_t* start;
  std::int64_t* slots;

  explicit CompressData(const CompressShape& shape);
  void next_call(CaseRandom& random, const std::vector<int>& counts);
};

CompressData::CompressData(const CompressShape& shape) : arena(12 << 20), spec(shape.spec) {
  CaseRandom random(shape.spec.dims + shape.spec.ratio);
  const int channels = compressor_channels(spec);
  spec.sequences_max = k_sequences;
  spec.tokens_max = k_call_tokens;
  call.sequences = k_sequences;
  call.token_stride = channels + 4;
  call.kv = kv = arena.take<float>(k_call_tokens * call.token_stride);
  call.gate = gate = arena.take<float>(k_call_tokens * call.token_stride);
  call.ape = arena.put(random.floats(static_cast<std::size_t>(spec.ratio) * channels));
  call.norm = arena.put(random.bf16s(spec.dims));
  call.table = put_table(arena);
  call.offsets = offsets = arena.take<std::int32_t>(k_sequences + 1);
  call.start = start = arena.take<std::int32_t>(k_sequences);
  // Sequence 5 has no state slot (padded); the slots are not in order.
  call.state_slot = arena.put(std::vector<std::int32_t>{3, 0, 7, 1, 4, -1, 2});
  call.state_slots = 8;
  const std::int64_t floats = compressor_state_floats(spec.ratio, spec.dims);
  call.state = arena.take<float>(8 * floats);
  const bool is_main = spec.target == CompressorTarget::v4_cache;
  const IndexerFormat format = spec.target == CompressorTarget::indexer_fp8   ? IndexerFormat::fp8
                               : spec.target == CompressorTarget::indexer_fp4 ? IndexerFormat::fp4
                                                                              : IndexerFormat::bf16;
  call.cache = take_pool(arena, 9, 64, is_main ? k_v4_row_bytes : indexer_row_bytes(format),
                         is_main ? 8 : 16);
  call.slots = slots = arena.take<std::int64_t>(k_call_tokens);
  call.rows_out_stride = spec.dims + 8;
  call.rows_out = arena.take<std::uint16_t>(k_call_tokens * call.rows_out_stride);
  std::fill_n(positions, k_sequences, 0);
}

// Sequence s brings counts[s] tokens; sequence 6 is padded by a negative start at every third call.
void CompressData::next_call(CaseRandom& random, const std::vector<int>& counts) {
  offsets[0] = 0;
  std::int64_t token = 0;
  bool is_steps = true;
  for (int s = 0; s < k_sequences; ++s) {
    start[s] = static_cast<std::int32_t>(positions[s]);
    for (int i = 0; i < counts[s]; ++i, ++token) {
      const int channels = compressor_channels(spec);
      const auto k = random.floats(channels);
      const auto g = random.floats(channels, 3);
      std::copy(k.begin(), k.end(), kv + token * call.token_stride);
      std::copy(g.begin(), g.end(), gate + token * call.token_stride);
      const std::int64_t entry = (positions[s] + i) / spec.ratio;
      slots[token] = random.below(11) == 0 ? -1 : (std::int64_t{s} * 80 + entry) % 576;
    }
    offsets[s + 1] = static_cast<std::int32_t>(token);
    positions[s] += counts[s];
    is_steps = is_steps && counts[s] == 1;
  }
  call.tokens = token;
  call.one_token_each = is_steps;
}

OpsOutcome run_compressor(const OpsTarget& target, const CompressShape& shape) {
  CompressData data(shape);
  OpsArena want(data.arena);
  Expected<Compressor> compressor = Compressor::create(data.spec, target.options);
  if (!compressor) return {compressor.error().message, 0};
  CaseRandom random(5);
  const int calls = shape.cut == "steps" ? 2 * shape.spec.ratio + 5 : 5;
  for (int i = 0; i < calls; ++i) {
    std::vector<int> counts(CompressData::k_sequences, 1);
    if (shape.cut != "steps") {
      for (int& count : counts)
        count = random.below(shape.cut == "whole" || shape.spec.ratio == 128 ? 80 : 20);
      counts[3] = shape.cut == "mixed" ? 1 : 0;
    }
    data.next_call(random, counts);
    if (i % 3 == 2) data.start[6] = -1;
    // A slot changes hands: sequence 1 begins anew on state that its former owner left.
    if (i == calls / 2) data.positions[1] = 0;
    CompressCall at = moved(data.call, data.arena.data(), want.data());
    // The inputs of this call, into the reference's arena.
    const std::size_t inputs =
        reinterpret_cast<const std::uint8_t*>(data.call.ape) - data.arena.data();
    std::memcpy(want.data(), data.arena.data(), inputs);
    std::copy_n(data.offsets, CompressData::k_sequences + 1, const_cast<std::int32_t*>(at.offsets));
    std::copy_n(data.start, CompressData::k_sequences, const_cast<std::int32_t*>(at.start));
    std::copy_n(data.slots, CompressData::k_call_tokens, const_cast<std::int64_t*>(at.slots));
    reference_compress(data.spec, at);
    std::string failure = on_backend(target, data.arena, data.call,
                                     [&](const CompressCall& c) { return compressor->run(c); });
    if (failure.empty()) failure = first_difference(data.arena, want);
    if (!failure.empty()) return {"call " + std::to_string(i) + ": " + failure, 0};
  }
  return {};
}

OpsOutcome run_state_copy(const OpsTarget& target, const CompressorSpec& spec) {
  OpsArena arena(4 << 20);
  CaseRandom random(8);
  const std::int64_t floats = compressor_state_floats(spec.ratio, spec.dims);
  StateCopyCall call;
  call.count = 4;
  call.state_slots = 6;
  call.slots = arena.put(std::vector<std::int32_t>{4, -1, 0, 6});
  call.state = arena.put(random.floats(6 * floats));
  call.buffer = arena.put(random.floats(4 * floats));
  Expected<Compressor> compressor = Compressor::create(spec, target.options);
  if (!compressor) return {compressor.error().message, 0};
  for (const auto direction : {StateCopyCall::Direction::save, StateCopyCall::Direction::restore}) {
    call.direction = direction;
    const OpsOutcome outcome = compare_bytes(
        target, arena, call, [&](const StateCopyCall& c) { reference_copy_state(spec, c); },
        [&](const StateCopyCall& c) { return compressor->copy_state(c); });
    if (!outcome.failure.empty()) return outcome;
  }
  return {};
}

const char* name_of(CompressorTarget target) {
  switch (target) {
    case CompressorTarget::rows:
      return "rows";
    case CompressorTarget::v4_cache:
      return "v4_cache";
    case CompressorTarget::indexer_fp8:
      return "indexer_fp8";
    case CompressorTarget::indexer_fp4:
      return "indexer_fp4";
    case CompressorTarget::indexer_bf16:
      return "indexer_bf16";
  }
  return "?";
}

}  // namespace

std::vector<OpsCase> cache_write_cases(bool full) {
  std::vector<OpsCase> cases;
  int index = 0;
  for (const char* what :
       {"v4", "v32", "key_fp8", "key_fp4", "key_bf16", "query_fp8", "query_fp4", "query_bf16"}) {
    const bool is_kv = what[0] == 'v';
    for (const char* values : {"normal", "tiny", "huge", "zero", "nan"}) {
      for (const int page_size : {1, 2, 53, 64}) {
        for (const bool exact : {false, true}) {
          for (const bool hadamard : {false, true}) {
            for (const bool has_table : {true, false}) {
              const bool has_rounding =
                  std::string(what) == "v32" || std::string(what) == "key_fp8";
              if ((exact && !has_rounding) || (hadamard && is_kv)) continue;
              // RoPE or Hadamard of a NaN row is NaN; of a huge one it may overflow: all kept.
              if (!full && ++index % 5 != 0) continue;
              cases.push_back(
                  write_case({what, exact ? ScaleRounding::exact : ScaleRounding::power_of_two,
                              hadamard, has_table, page_size, values}));
            }
          }
        }
      }
    }
  }
  return cases;
}

std::vector<OpsCase> compressor_cases(bool full) {
  std::vector<OpsCase> cases;
  const std::vector<std::pair<CompressorTarget, int>> targets{
      {CompressorTarget::rows, 512},        {CompressorTarget::rows, 128},
      {CompressorTarget::v4_cache, 512},    {CompressorTarget::indexer_fp8, 128},
      {CompressorTarget::indexer_fp4, 128}, {CompressorTarget::indexer_bf16, 128}};
  for (const int ratio : {4, 128}) {
    for (const auto& [target, dims] : targets) {
      for (const char* cut : {"steps", "whole", "mixed"}) {
        for (const bool hadamard : {false, true}) {
          if (hadamard && (dims != 128 || (!full && target == CompressorTarget::rows))) continue;
          CompressShape shape;
          shape.spec.ratio = ratio;
          shape.spec.dims = dims;
          shape.spec.target = target;
          shape.spec.hadamard = hadamard;
          shape.cut = cut;
          cases.push_back({"compressor",
                           {{"ratio", std::to_string(ratio)},
                            {"dims", std::to_string(dims)},
                            {"target", name_of(target)},
                            {"hadamard", hadamard ? "yes" : "no"},
                            {"cut", cut}},
                           [shape](const OpsTarget& t) { return run_compressor(t, shape); }});
        }
      }
    }
    for (const int dims : {512, 128}) {
      CompressorSpec spec;
      spec.ratio = ratio;
      spec.dims = dims;
      spec.target = CompressorTarget::rows;
      cases.push_back({"compressor",
                       {{"ratio", std::to_string(ratio)},
                        {"dims", std::to_string(dims)},
                        {"target", "state_copy"}},
                       [spec](const OpsTarget& t) { return run_state_copy(t, spec); }});
    }
  }
  return cases;
}

}  // namespace splitwave
