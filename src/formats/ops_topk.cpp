// Top-k by sorting every position of the row.
#include "formats/ops_topk.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "formats/ops_indexer.h"

namespace splitwave {

std::vector<std::int32_t> reference_top_k(const float* logits, std::int64_t length, int k) {
  std::vector<std::int32_t> order;
  for (std::int64_t i = 0; i < length; ++i) {
    if (topk_key(std::bit_cast<std::uint32_t>(logits[i])) != 0) {
      order.push_back(static_cast<std::int32_t>(i));
    }
  }
  const std::size_t kept = std::min<std::size_t>(order.size(), static_cast<std::size_t>(k));
  // NaN is gone, and operator> puts -0 and +0 together: this is the contract's order as it is
  // written.
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return logits[a] > logits[b]; });
  order.resize(kept);
  std::sort(order.begin(), order.end());
  return order;
}

std::int32_t physical_slot(const PageTable& table, int row, int page_size, std::int64_t pool_pages,
                           std::int32_t key) {
  const std::int64_t page = table.pages[row * table.row_stride + key / page_size];
  if (page < 0 || page >= pool_pages) return -1;
  const std::int64_t slot = page * page_size + key % page_size;
  return slot > std::numeric_limits<std::int32_t>::max() ? -1 : static_cast<std::int32_t>(slot);
}

void reference_top_k_call(const IndexerSpec& spec, const TopKCall& call) {
  for (int row = 0; row < call.rows; ++row) {
    const std::int64_t length = clamped_length(call.lengths, row, spec.length_max);
    const auto chosen = reference_top_k(call.logits + row * call.logits_row_stride, length, call.k);
    std::int32_t* out = call.indices + row * call.indices_row_stride;
    std::fill(std::copy(chosen.begin(), chosen.end(), out), out + call.k, -1);
    if (call.counts != nullptr) call.counts[row] = static_cast<std::int32_t>(chosen.size());
  }
}

void reference_translate(const SelectCall& call, int rows, const std::int32_t* indices,
                         std::int64_t indices_row_stride, const std::int32_t* counts) {
  for (int row = 0; row < rows; ++row) {
    std::int32_t* out = call.slots + row * call.slots_row_stride;
    for (int i = 0; i < call.k; ++i) {
      out[i] = i >= counts[row]
                   ? -1
                   : physical_slot(call.kv_pages, row, call.kv_page_size, call.kv_pool_pages,
                                   indices[row * indices_row_stride + i]);
    }
  }
}

}  // namespace splitwave
