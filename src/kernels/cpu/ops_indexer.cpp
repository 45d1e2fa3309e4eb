// Work items of the indexer on the CPU: pack a row's query once, score (row, key chunk) items,
// select row by row.
#include "kernels/cpu/ops_indexer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "formats/ops_indexer.h"
#include "formats/ops_rows.h"
#include "formats/ops_topk.h"

namespace splitwave::cpu {
namespace {

constexpr int k_chunk_keys = 192;  // keys decoded at a time: 96 KB of floats, within the L2

struct alignas(64) WorkerScratch {
  std::array<float, (k_chunk_keys + k_score_keys) * k_indexer_dims> keys;
  std::array<float, k_chunk_keys> scales;
};

}  // namespace

struct IndexerEngine::Impl {
  IndexerSpec spec;
  const OpsKernels& kernels;
  WorkerPool& pool;
  int heads_padded;
  std::vector<float> queries;             // [rows_max][128][heads_padded]
  std::vector<float> weights;             // [rows_max][heads_padded]
  std::vector<std::int64_t> first_item;   // [rows_max + 1]: items of the rows before
  std::vector<WorkerScratch> scratch;     // one a worker
  std::vector<std::uint32_t> candidates;  // [workers][length_max]
  std::vector<float> logits;              // select's own, [rows_max][length_max], made at creation
  std::vector<std::int32_t> indices;      // [rows_max][k_max]

  Impl(const IndexerSpec& s, const OpsKernels& k, WorkerPool& p) : spec(s), kernels(k), pool(p) {
    heads_padded = (spec.heads + k_ops_head_pad - 1) / k_ops_head_pad * k_ops_head_pad;
    const std::size_t rows = spec.rows_max;
    queries.resize(rows * k_indexer_dims * heads_padded);
    weights.resize(rows * heads_padded);
    first_item.resize(rows + 1);
    scratch.resize(pool.threads());
    candidates.resize(static_cast<std::size_t>(pool.threads()) * spec.length_max);
    if (spec.owns_logits) logits.resize(rows * spec.length_max);
    indices.resize(rows * spec.k_max);
  }

  void pack_query(const LogitsCall& call, int row);
  void score_chunk(const LogitsCall& call, int row, std::int64_t first, std::int64_t count,
                   WorkerScratch& work);
  // Runs body(item, worker) for items [0, count) on every worker.
  template <class Body>
  void for_each(std::int64_t count, Body&& body) {
    std::atomic<std::int64_t> next{0};
    const int workers = static_cast<int>(std::min<std::int64_t>(pool.threads(), count));
    if (workers == 0) return;
    pool.run(workers, [&](int worker) {
      for (std::int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) body(i, worker);
    });
  }
};

void IndexerEngine::Impl::pack_query(const LogitsCall& call, int row) {
  const IndexerFormat stored = spec.query == IndexerQuery::bf16 ? IndexerFormat::bf16 : spec.keys;
  const auto* q = static_cast<const std::uint8_t*>(call.q) + row * call.q_row_stride_bytes;
  float* out = queries.data() + std::ptrdiff_t{row} * k_indexer_dims * heads_padded;
  std::array<float, k_indexer_dims> dims{};
  for (int head = 0; head < spec.heads; ++head) {
    const std::uint8_t* scales = nullptr;
    if (stored == IndexerFormat::fp4) {
      scales = call.q_scales + row * call.q_scales_row_stride + head * k_indexer_fp4_scales;
    }
    dequantise_indexer_row(stored, q + std::ptrdiff_t{head} * indexer_value_bytes(stored), scales,
                           dims.data());
    for (int d = 0; d < k_indexer_dims; ++d) out[d * heads_padded + head] = dims[d];
    weights[std::size_t(row) * heads_padded + head] =
        call.weights[row * call.weights_row_stride + head];
  }
}

void IndexerEngine::Impl::score_chunk(const LogitsCall& call, int row, std::int64_t first,
                                      std::int64_t count, WorkerScratch& work) {
  const int page_size = call.keys.page_size;
  const std::int32_t* pages = call.key_pages.pages + row * call.key_pages.row_stride;
  std::array<bool, k_chunk_keys> is_absent{};
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t key = first + i;
    const std::int64_t page = pages[key / page_size];
    is_absent[i] = page < 0 || page >= call.keys.pages;
    if (is_absent[i]) continue;
    const SlotBytes at = planar_slot_bytes(
        page * page_size + key % page_size, page_size, call.keys.page_stride_bytes,
        indexer_value_bytes(spec.keys), indexer_scale_bytes(spec.keys));
    float* out = work.keys.data() + i * k_indexer_dims;
    if (spec.keys == IndexerFormat::fp8) {
      kernels.decode_e4m3(call.keys.base + at.values, out);
      std::copy_n(call.keys.base + at.scales, sizeof(float),
                  reinterpret_cast<std::uint8_t*>(&work.scales[i]));
    } else {
      dequantise_indexer_row(spec.keys, call.keys.base + at.values, call.keys.base + at.scales,
                             out);
    }
  }
  float* logits_out = call.logits + row * call.logits_row_stride + first;
  kernels.score({.heads = spec.heads,
                 .heads_padded = heads_padded,
                 .q = queries.data() + std::ptrdiff_t{row} * k_indexer_dims * heads_padded,
                 .weights = weights.data() + std::ptrdiff_t{row} * heads_padded,
                 .count = static_cast<int>(count),
                 .keys = work.keys.data(),
                 .scales = spec.keys == IndexerFormat::fp8 ? work.scales.data() : nullptr,
                 .logits = logits_out});
  for (std::int64_t i = 0; i < count; ++i) {
    if (is_absent[i]) logits_out[i] = std::numeric_limits<float>::quiet_NaN();
  }
}

IndexerEngine::IndexerEngine(const IndexerSpec& spec, const OpsKernels& kernels, WorkerPool& pool)
    : impl_(std::make_unique<Impl>(spec, kernels, pool)) {}
IndexerEngine::~IndexerEngine() = default;

void IndexerEngine::logits(const LogitsCall& call) {
  Impl& m = *impl_;
  m.first_item[0] = 0;
  for (int row = 0; row < call.rows; ++row) {
    const std::int64_t length = clamped_length(call.lengths, row, m.spec.length_max);
    m.first_item[row + 1] = m.first_item[row] + (length + k_chunk_keys - 1) / k_chunk_keys;
  }
  m.for_each(call.rows, [&](std::int64_t row, int) {
    if (m.first_item[row + 1] > m.first_item[row]) m.pack_query(call, static_cast<int>(row));
  });
  const auto rows_end = m.first_item.begin() + call.rows + 1;
  m.for_each(m.first_item[call.rows], [&](std::int64_t item, int worker) {
    const auto after = std::upper_bound(m.first_item.begin(), rows_end, item);
    const int row = static_cast<int>(after - m.first_item.begin()) - 1;
    const std::int64_t first = (item - m.first_item[row]) * k_chunk_keys;
    const std::int64_t length = clamped_length(call.lengths, row, m.spec.length_max);
    m.score_chunk(call, row, first, std::min<std::int64_t>(k_chunk_keys, length - first),
                  m.scratch[worker]);
  });
}

void IndexerEngine::top_k(const TopKCall& call) {
  Impl& m = *impl_;
  m.for_each(call.rows, [&](std::int64_t row, int worker) {
    const std::int64_t length =
        clamped_length(call.lengths, static_cast<int>(row), m.spec.length_max);
    const int count = top_k_row(m.kernels, call.logits + row * call.logits_row_stride, length,
                                call.k, m.candidates.data() + worker * m.spec.length_max,
                                call.indices + row * call.indices_row_stride);
    if (call.counts != nullptr) call.counts[row] = count;
  });
}

void IndexerEngine::select(const SelectCall& call) {
  Impl& m = *impl_;
  LogitsCall scored = call.logits;
  if (scored.logits == nullptr) {
    scored.logits = m.logits.data();
    scored.logits_row_stride = m.spec.length_max;
  }
  logits(scored);
  TopKCall chosen;
  chosen.rows = scored.rows;
  chosen.k = call.k;
  chosen.logits = scored.logits;
  chosen.logits_row_stride = scored.logits_row_stride;
  chosen.lengths = scored.lengths;
  chosen.indices = call.indices != nullptr ? call.indices : m.indices.data();
  chosen.indices_row_stride = call.indices != nullptr ? call.indices_row_stride : m.spec.k_max;
  chosen.counts = call.counts;
  top_k(chosen);
  reference_translate(call, scored.rows, chosen.indices, chosen.indices_row_stride, call.counts);
}

std::int64_t IndexerEngine::workspace_bytes() const {
  const Impl& m = *impl_;
  const auto bytes = [](const auto& v) {
    return static_cast<std::int64_t>(v.size() * sizeof(v[0]));
  };
  return bytes(m.queries) + bytes(m.weights) + bytes(m.first_item) + bytes(m.scratch) +
         bytes(m.candidates) + bytes(m.logits) + bytes(m.indices);
}

}  // namespace splitwave::cpu
