// What the gather and the math warps share: shared-memory addresses, items, positions in the ring.
// Owns no arithmetic of the result. Included by the role headers of this folder.
#pragma once

#include <utility>

#include "kernels/cuda/common/gather.cuh"
#include "kernels/cuda/common/item_map.cuh"
#include "kernels/cuda/common/ptx.cuh"
#include "kernels/cuda/sm90a/config.h"
#include "kernels/cuda/sm90a/wgmma.cuh"

namespace splitwave::cuda::sm90a {

// A variant is a type with `static constexpr Sm90aShape shape`: nvcc 13.0 cannot pass a namespaced
// struct as a template value to a kernel.

// The same value in every lane, and known to be so: the compiler keeps it in a uniform register and
// leaves branches on it convergent.
[[nodiscard]] __device__ __forceinline__ int uniform(int v) {
  return __reduce_max_sync(0xFFFFFFFFU, v);
}

// f(0), f(1), .. f(Count - 1), each index a constant.
template <int Count, class F>
__device__ __forceinline__ void unrolled(F f) {
  [&]<int... Index>(std::integer_sequence<int, Index...>) {
    (f(std::integral_constant<int, Index>{}), ...);
  }
  (std::make_integer_sequence<int, Count>{});
}

// The lane, read anew: what follows from it is computed where it is used and not hoisted out of the
// loops around. At 64 heads every register counts, and addresses made from a lane number are cheap.
[[nodiscard]] __device__ __forceinline__ int lane_now() {
  int lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

// The item with that number but for its lengths; row -1 past the end. Every role computes it: the
// math warps want the row of Q before the lengths are known.
[[nodiscard]] __device__ __forceinline__ Item item_without_lengths(const DecodeParams& p,
                                                                   int index) {
  Item item;
  const ItemMap& map = p.map;
  if (map.kind == ItemMapKind::list) {
    if (index >= *map.list_count) return item;
    return map.list[index];
  }
  if (index >= map.items) return item;
  const int piece = index / map.pairs;
  const int pair = index - piece * map.pairs;
  item.row = pair / p.head_blocks;
  item.head_block = pair - item.row * p.head_blocks;
  item.chunk_begin = piece * map.piece_chunks;
  item.chunk_end = min(item.chunk_begin + map.piece_chunks, map.chunks);
  if (map.pieces > 1) {
    item.slot = pair * map.stored + (piece == 0 ? 0 : 1 + item.chunk_begin - map.piece_chunks);
  }
  return item;
}

// address_of and the list entry of common/gather.cuh, by selection between two constants: an
// indexed read of the parameters, different by lane, is a chain of constant loads on the way to the
// first row.
template <KvFormat Format>
[[nodiscard]] __device__ __forceinline__ RowAddress row_address(const DecodeParams& p,
                                                                std::int32_t slot, bool is_main) {
  const CacheParams& a = p.cache[0];
  const CacheParams& b = p.cache[1];
  RowAddress row;
  row.is_valid = slot >= 0 && slot < (is_main ? a.slots_end : b.slots_end);
  row.is_16_aligned = (is_main ? a.is_16_aligned : b.is_16_aligned) != 0;
  const std::uint32_t at = row.is_valid ? static_cast<std::uint32_t>(slot) : 0U;
  const std::uint32_t page = static_cast<std::uint32_t>(
      (static_cast<std::uint64_t>(at) * (is_main ? a.divisor.multiplier : b.divisor.multiplier)) >>
      (is_main ? a.divisor.shift : b.divisor.shift));
  const std::uint32_t offset = at - page * (is_main ? a.divisor.page_size : b.divisor.page_size);
  const std::uint8_t* base = is_main ? a.base : b.base;
  const std::uint8_t* start = base + static_cast<std::int64_t>(page) *
                                         (is_main ? a.page_stride_bytes : b.page_stride_bytes);
  if constexpr (Format == KvFormat::v4) {
    row.data = start + static_cast<std::int64_t>(offset) * k_v4_data_bytes;
    row.scales = start + (is_main ? a.scales_offset_bytes : b.scales_offset_bytes) +
                 static_cast<std::int64_t>(offset) * k_v4_scale_bytes;
  } else {
    row.data = row.scales = start + static_cast<std::int64_t>(offset) * k_v32_row_bytes;
  }
  return row;
}
[[nodiscard]] __device__ __forceinline__ std::int32_t list_entry(const DecodeParams& p, int row,
                                                                 int position, int length_main) {
  const bool is_main = position < length_main;
  const std::int32_t* slots = is_main ? p.list[0].slots : p.list[1].slots;
  const std::int64_t stride = is_main ? p.list[0].row_stride : p.list[1].row_stride;
  return __ldg(slots + row * stride + (is_main ? position : position - length_main));
}

// A folded item adds its chunks up from the row's start; any other stores each chunk by itself.
[[nodiscard]] __device__ __forceinline__ bool is_folded(const Item& item) {
  return item.chunk_begin == 0;
}

// One past the last chunk with rows in this item. A folded item has at least one, so that an empty
// row is written too.
[[nodiscard]] __device__ __forceinline__ int live_chunk_end(const DecodeParams& p,
                                                            const Item& item) {
  const int end = min(item.chunk_end, (item.length_total + p.chunk_rows - 1) / p.chunk_rows);
  return is_folded(item) ? max(end, 1) : end;
}

[[nodiscard]] __device__ __forceinline__ int rows_of_chunk(const DecodeParams& p, const Item& item,
                                                           int chunk) {
  return min(max(item.length_total - chunk * p.chunk_rows, 0), p.chunk_rows);
}

// A running stage number to its ring slot and the parity of that use.
template <class V>
struct RingPosition {
  std::uint32_t slot;
  std::uint32_t parity;
};
template <class V>
[[nodiscard]] __device__ __forceinline__ RingPosition<V> ring_position(std::uint32_t stage) {
  constexpr std::uint32_t k_stages = V::shape.stages;
  const std::uint32_t pass = stage / k_stages;
  return {stage - pass * k_stages, pass & 1U};
}

template <class V>
inline constexpr int k_stage_bytes = k_sm90a_stage_rows* sm90a_row_bytes(V::shape.config.format);

[[nodiscard]] __device__ __forceinline__ int blocks_of(int rows) {
  return (rows + k_sm90a_block_rows - 1) / k_sm90a_block_rows;
}

}  // namespace splitwave::cuda::sm90a
