// Cases of the logits and of the select call. Each logits case also runs every row alone and wants
// the same bits: batch, neighbours and slot must not matter.
#include <algorithm>
#include <bit>
#include <cmath>

#include "formats/ops_indexer.h"
#include "formats/ops_rows.h"
#include "formats/ops_topk.h"
#include "runtime/ops_cases.h"

namespace splitwave {
namespace {

constexpr std::uint32_t k_poison_word = 0xFFFFFFFFU;

struct IndexerShape {
  IndexerSpec spec;
  int rows = 6;
  int page_size = 64;
  bool has_absent_pages = true;
  std::string values = "normal";  // or "nan": NaN codes, NaN weights, infinite bf16 keys
};

// Everything of one case at a place: spec, call, arena.
struct IndexerData {
  OpsArena arena;
  IndexerSpec spec;
  LogitsCall call;

  explicit IndexerData(const IndexerShape& shape);
  void fill_keys(const IndexerShape& shape, CaseRandom& random);
  void fill_queries(const IndexerShape& shape, CaseRandom& random);
};

std::size_t arena_bytes(const IndexerShape& s) {
  const std::size_t pages = (s.spec.length_max / s.page_size + 2) * 3;
  return pages * (indexer_page_bytes(s.spec.keys, s.page_size) + 64) + (1 << 20) +
         static_cast<std::size_t>(s.rows) * (s.spec.heads * 300 + s.spec.length_max * 12 + 4096);
}

void IndexerData::fill_keys(const IndexerShape& shape, CaseRandom& random) {
  const std::int64_t table_width = (spec.length_max + shape.page_size - 1) / shape.page_size;
  const std::int64_t pages = table_width * 2 + 3;
  // A page stride with slack, and poison in it.
  const std::int64_t stride = (indexer_page_bytes(spec.keys, shape.page_size) + 47) / 16 * 16;
  std::uint8_t* base = arena.take<std::uint8_t>(pages * stride);
  for (std::int64_t slot = 0; slot < pages * shape.page_size; ++slot) {
    std::vector<std::uint16_t> dims = random.bf16s(k_indexer_dims, std::exp2(random.below(9) - 4));
    const SlotBytes at =
        planar_slot_bytes(slot, shape.page_size, stride, indexer_value_bytes(spec.keys),
                          indexer_scale_bytes(spec.keys));
    const bool is_bad = shape.values == "nan" && random.below(12) == 0;
    if (is_bad && spec.keys == IndexerFormat::bf16) dims[random.below(128)] = 0x7F80;
    quantise_indexer_row(spec.keys, ScaleRounding::exact, dims.data(), base + at.values,
                         base + at.scales);
    if (is_bad && spec.keys == IndexerFormat::fp8) base[at.values + random.below(128)] = 0xFF;
    if (is_bad && spec.keys == IndexerFormat::fp4) base[at.scales + random.below(4)] = 0xFF;
    if (spec.keys == IndexerFormat::fp4 && random.below(40) == 0) base[at.scales] = 140;  // 2^13
  }
  std::vector<std::int32_t> table(shape.rows * table_width);
  for (std::int32_t& page : table) {
    page = random.below(static_cast<int>(pages));
    if (shape.has_absent_pages && random.below(9) == 0) {
      page = random.below(2) == 0 ? -1 - random.below(1000)
                                  : static_cast<int>(pages) + random.below(9);
    }
  }
  call.keys = {base, pages, shape.page_size, stride};
  call.key_pages = {arena.put(table), table_width};
}

void IndexerData::fill_queries(const IndexerShape& shape, CaseRandom& random) {
  const IndexerFormat stored = spec.query == IndexerQuery::bf16 ? IndexerFormat::bf16 : spec.keys;
  const int value_bytes = indexer_value_bytes(stored);
  call.q_row_stride_bytes = std::int64_t{spec.heads} * value_bytes + 32;
  call.q_scales_row_stride = std::int64_t{spec.heads} * 4 + 4;
  call.weights_row_stride = spec.heads + 3;
  auto* q = arena.take<std::uint8_t>(shape.rows * call.q_row_stride_bytes);
  auto* scales = arena.take<std::uint8_t>(shape.rows * call.q_scales_row_stride);
  auto* weights = arena.take<float>(shape.rows * call.weights_row_stride);
  for (int row = 0; row < shape.rows; ++row) {
    for (int head = 0; head < spec.heads; ++head) {
      const std::vector<std::uint16_t> dims = random.bf16s(k_indexer_dims);
      std::uint8_t scale[4] = {};
      quantise_indexer_row(stored, ScaleRounding::power_of_two, dims.data(),
                           q + row * call.q_row_stride_bytes + std::int64_t{head} * value_bytes,
                           scale);
      if (stored == IndexerFormat::fp4) {
        std::copy_n(scale, 4, scales + row * call.q_scales_row_stride + head * 4);
      }
      weights[row * call.weights_row_stride + head] = random.normal();
    }
  }
  if (shape.values == "nan") weights[(shape.rows - 1) * call.weights_row_stride] = std::nanf("");
  call.q = q;
  call.q_scales = stored == IndexerFormat::fp4 ? scales : nullptr;
  call.weights = weights;
}

IndexerData::IndexerData(const IndexerShape& shape) : arena(arena_bytes(shape)), spec(shape.spec) {
  CaseRandom random(static_cast<std::uint64_t>(spec.heads) * 131 + shape.page_size);
  spec.rows_max = shape.rows;
  call.rows = shape.rows;
  fill_keys(shape, random);
  fill_queries(shape, random);
  // Padded rows (0, negative), one past the width, the edges of a tile of 16 keys, ragged rest.
  const std::vector<std::int32_t> known{
      0,  static_cast<std::int32_t>(spec.length_max) + 7, -5, 1, 15, 16,
      17, static_cast<std::int32_t>(spec.length_max)};
  std::vector<std::int32_t> lengths;
  for (int row = 0; row < shape.rows; ++row) {
    lengths.push_back(row < static_cast<int>(known.size())
                          ? known[row]
                          : random.below(static_cast<int>(spec.length_max) + 1));
  }
  call.lengths = arena.put(lengths);
  call.logits_row_stride = spec.length_max + 5;
  call.logits = arena.take<float>(shape.rows * call.logits_row_stride);
}

// Row `row` alone must give the bits that it has in the batch.
std::string compare_alone(const OpsTarget& target, const IndexerData& batch, int row) {
  IndexerData alone(batch);
  alone.call = moved(batch.call, batch.arena.data(), alone.arena.data());
  LogitsCall call = alone.call;
  call.rows = 1;
  call.q = static_cast<const std::uint8_t*>(call.q) + row * call.q_row_stride_bytes;
  if (call.q_scales != nullptr) call.q_scales += row * call.q_scales_row_stride;
  call.weights += row * call.weights_row_stride;
  call.key_pages.pages += row * call.key_pages.row_stride;
  call.lengths += row;
  const std::int64_t length = clamped_length(call.lengths, 0, batch.spec.length_max);
  call.logits += row * call.logits_row_stride;
  std::fill_n(call.logits, length, 0.0F);
  IndexerSpec spec = batch.spec;
  spec.rows_max = 1;
  Expected<Indexer> indexer = Indexer::create(spec, target.options);
  if (!indexer) return indexer.error().message;
  const std::string failure = on_backend(target, alone.arena, call,
                                         [&](const LogitsCall& c) { return indexer->logits(c); });
  if (!failure.empty()) return failure;
  const float* want = batch.call.logits + row * batch.call.logits_row_stride;
  for (std::int64_t i = 0; i < length; ++i) {
    if (std::isnan(call.logits[i]) && std::isnan(want[i])) continue;
    if (std::bit_cast<std::uint32_t>(call.logits[i]) != std::bit_cast<std::uint32_t>(want[i])) {
      return "row " + std::to_string(row) + " key " + std::to_string(i) + ": alone " +
             std::to_string(call.logits[i]) + ", in the batch " + std::to_string(want[i]);
    }
  }
  return {};
}

OpsOutcome run_logits(const OpsTarget& target, const IndexerShape& shape) {
  IndexerData data(shape);
  const OpsArena before(data.arena);
  const ReferenceLogits reference = reference_logits(data.spec, data.call);
  Expected<Indexer> indexer = Indexer::create(data.spec, target.options);
  if (!indexer) return {indexer.error().message, 0};
  std::string failure = on_backend(target, data.arena, data.call,
                                   [&](const LogitsCall& c) { return indexer->logits(c); });
  if (!failure.empty()) return {failure, 0};
  const LogitsComparison compared = compare_logits(data.spec, data.call, reference, k_poison_word);
  if (!compared.ok) return {compared.failure, compared.worst};
  for (int row = 0; row < shape.rows; ++row) {
    failure = compare_alone(target, data, row);
    if (!failure.empty()) return {failure, compared.worst};
  }
  // Beside the columns below each length, nothing may have changed.
  OpsArena cleaned(data.arena);
  LogitsCall at = moved(data.call, data.arena.data(), cleaned.data());
  for (int row = 0; row < shape.rows; ++row) {
    const std::int64_t length = clamped_length(at.lengths, row, data.spec.length_max);
    std::fill_n(reinterpret_cast<std::uint32_t*>(at.logits + row * at.logits_row_stride), length,
                k_poison_word);
  }
  return {first_difference(cleaned, before), compared.worst};
}

OpsCase logits_case(const IndexerShape& shape) {
  return {"indexer",
          {{"keys", name_of(shape.spec.keys)},
           {"query", shape.spec.query == IndexerQuery::native ? "native" : "bf16"},
           {"heads", std::to_string(shape.spec.heads)},
           {"page_size", std::to_string(shape.page_size)},
           {"rows", std::to_string(shape.rows)},
           {"values", shape.values}},
          [shape](const OpsTarget& target) { return run_logits(target, shape); }};
}

// The select call, judged by the exact top-k of the logits that the same backend left behind.
OpsOutcome run_select(const OpsTarget& target, const IndexerShape& shape, int k, int kv_page_size) {
  IndexerShape bounded = shape;
  bounded.spec.k_max = k;
  IndexerData data(bounded);
  CaseRandom random(99);
  const std::int64_t table_width = (data.spec.length_max + kv_page_size - 1) / kv_page_size;
  std::vector<std::int32_t> kv_pages(shape.rows * table_width);
  SelectCall call;
  call.kv_pool_pages = 2'147'483'647 / kv_page_size;  // the largest pool that int32 slots can name
  for (std::int32_t& page : kv_pages) {
    page = random.below(static_cast<int>(call.kv_pool_pages));
    if (random.below(7) == 0) page = random.below(2) == 0 ? -3 : 2'147'483'647;
  }
  call.logits = data.call;
  call.k = k;
  call.kv_pages = {data.arena.put(kv_pages), table_width};
  call.kv_page_size = kv_page_size;
  call.slots_row_stride = k + 2;
  call.slots = data.arena.take<std::int32_t>(shape.rows * call.slots_row_stride);
  call.indices_row_stride = k + 1;
  call.indices = data.arena.take<std::int32_t>(shape.rows * call.indices_row_stride);
  call.counts = data.arena.take<std::int32_t>(shape.rows);
  Expected<Indexer> indexer = Indexer::create(data.spec, target.options);
  if (!indexer) return {indexer.error().message, 0};
  const OpsArena untouched(data.arena);
  const auto select = [&](const SelectCall& c) { return indexer->select(c); };
  std::string failure = on_backend(target, data.arena, call, select);
  if (!failure.empty()) return {failure, 0};
  // The reference on the backend's own logits.
  OpsArena want(untouched);
  SelectCall at = moved(call, data.arena.data(), want.data());
  for (int row = 0; row < shape.rows; ++row) {
    const std::int64_t length = clamped_length(at.logits.lengths, row, data.spec.length_max);
    std::copy_n(call.logits.logits + row * call.logits.logits_row_stride, length,
                at.logits.logits + row * at.logits.logits_row_stride);
  }
  reference_top_k_call(data.spec,
                       {at.logits.rows, k, at.logits.logits, at.logits.logits_row_stride,
                        at.logits.lengths, at.indices, at.indices_row_stride, at.counts, nullptr});
  reference_translate(at, at.logits.rows, at.indices, at.indices_row_stride, at.counts);
  failure = first_difference(data.arena, want);
  if (!failure.empty()) return {failure, 0};
  // Through the object's own logits, without the logical indices: the same slots.
  OpsArena again(untouched);
  SelectCall hidden = moved(call, data.arena.data(), again.data());
  hidden.logits.logits = nullptr;
  hidden.indices = nullptr;
  failure = on_backend(target, again, hidden, select);
  if (!failure.empty()) return {failure, 0};
  for (int row = 0; row < shape.rows; ++row) {
    for (int i = 0; i < k; ++i) {
      if (hidden.slots[row * hidden.slots_row_stride + i] !=
          at.slots[row * at.slots_row_stride + i]) {
        return {"row " + std::to_string(row) + " slot " + std::to_string(i) +
                    " differs with the workspace's logits",
                0};
      }
    }
  }
  return {};
}

}  // namespace

std::vector<OpsCase> indexer_cases(bool full) {
  std::vector<OpsCase> cases;
  IndexerShape shape;
  shape.rows = 12;
  shape.spec.length_max = 331;
  const std::vector<std::pair<IndexerFormat, IndexerQuery>> types{
      {IndexerFormat::fp8, IndexerQuery::native},
      {IndexerFormat::fp8, IndexerQuery::bf16},
      {IndexerFormat::fp4, IndexerQuery::native},
      {IndexerFormat::fp4, IndexerQuery::bf16},
      {IndexerFormat::bf16, IndexerQuery::bf16}};
  const std::vector<int> heads_all{1, 5, 8, 20, 32, 37, 64};
  const std::vector<int> pages_all{1, 16, 53, 64, 256};
  for (const auto& [keys, query] : types) {
    shape.spec.keys = keys;
    shape.spec.query = query;
    for (std::size_t h = 0; h < heads_all.size(); ++h) {
      for (std::size_t p = 0; p < pages_all.size(); ++p) {
        if (!full && h % pages_all.size() != p) continue;
        for (const char* values : {"normal", "nan"}) {
          if (!full && std::string(values) == "nan" && h % 2 == 0) continue;
          shape.spec.heads = heads_all[h];
          shape.page_size = pages_all[p];
          shape.values = values;
          cases.push_back(logits_case(shape));
        }
      }
    }
  }
  shape = IndexerShape{};
  for (const int rows : {1, 2, 33, 97}) {
    shape.rows = rows;
    shape.spec.heads = 8;
    shape.spec.length_max = full ? 777 : 97;
    cases.push_back(logits_case(shape));
  }
  return cases;
}

std::vector<OpsCase> select_cases(bool full) {
  std::vector<OpsCase> cases;
  for (const int k : {1, 64, 512, 2048}) {
    for (const int kv_page_size : {1, 2, 64, 100}) {
      if (!full && (k == 2048 || kv_page_size == 100) && k != 64) continue;
      IndexerShape shape;
      shape.rows = 10;
      shape.spec.heads = 8;
      shape.spec.length_max = full ? 3000 : 600;
      cases.push_back({"select",
                       {{"k", std::to_string(k)}, {"kv_page_size", std::to_string(kv_page_size)}},
                       [shape, k, kv_page_size](const OpsTarget& target) {
                         return run_select(target, shape, k, kv_page_size);
                       }});
    }
  }
  return cases;
}

}  // namespace splitwave
