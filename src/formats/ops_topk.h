// Exact top-k and its order. Owns the total order (value descending, index ascending), what NaN, -0
// and short rows mean, and the translation of positions to physical slots. The reference sorts; the
// kernels must give the same lists. Host memory only.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/ops_math.h"
#include "splitwave/ops.h"

namespace splitwave {

// The order-preserving key: larger logits have larger keys, -0 has +0's key, NaN has key 0, which
// no number has (-inf is 0x007FFFFF).
SPLITWAVE_HOST_DEVICE std::uint32_t topk_key(std::uint32_t bits) {
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return 0;
  if (magnitude == 0) return 0x80000000U;
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}

// The ascending indices of the selected entries of one row.
[[nodiscard]] std::vector<std::int32_t> reference_top_k(const float* logits, std::int64_t length,
                                                        int k);

// The slot of a key, or -1 where its page is absent or the slot does not fit 31 bits.
[[nodiscard]] std::int32_t physical_slot(const PageTable& table, int row, int page_size,
                                         std::int64_t pool_pages, std::int32_t key);

// Runs the whole call on the host by the reference.
void reference_top_k_call(const IndexerSpec& spec, const TopKCall& call);
void reference_translate(const SelectCall& call, int rows, const std::int32_t* indices,
                         std::int64_t indices_row_stride, const std::int32_t* counts);

}  // namespace splitwave
