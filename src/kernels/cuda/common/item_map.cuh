// From an item's number to the item, and a row's effective lengths. Owns the device side of the
// work decomposition; shared by every family. The cut of a row depends on its own lengths and
// chunk_rows alone; which CTA gets which piece never changes a bit.
#pragma once

#include "kernels/cuda/common/params.h"

namespace splitwave::cuda {

__device__ __forceinline__ bool is_valid_slot(const CacheParams& cache, std::int32_t slot) {
  return slot >= 0 && slot < cache.slots_end;
}

// The row's last valid entry + 1, found from the end, 128 entries a step. All 32 lanes call it.
__device__ __forceinline__ int last_valid_entry(const CacheParams& cache, const std::int32_t* slots,
                                                int width, int lane) {
  for (int end = width; end > 0; end -= 128) {
    int found = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = end - 128 + 32 * i + lane;
      if (at >= 0 && is_valid_slot(cache, __ldg(slots + at))) found = at + 1;
    }
    found = __reduce_max_sync(0xFFFFFFFFU, found);
    if (found > 0) return found;
  }
  return 0;
}

// The effective length of one list of a row; all 32 lanes get it.
__device__ __forceinline__ int row_length(const DecodeParams& p, int which, int row, int lane) {
  const ListParams& list = p.list[which];
  if (list.width == 0) return 0;
  if (list.lengths != nullptr) return min(max(__ldg(list.lengths + row), 0), list.width);
  return last_valid_entry(p.cache[which], list.slots + row * list.row_stride, list.width, lane);
}

// Fills the lengths of an item that does not carry them.
__device__ __forceinline__ void fill_lengths(const DecodeParams& p, Item& item, int lane) {
  const bool has_lengths = (p.list[0].width == 0 || p.list[0].lengths != nullptr) &&
                           (p.list[1].width == 0 || p.list[1].lengths != nullptr);
  if (has_lengths) {
    // Both requested before either is used: each costs a trip to memory on the way to the first
    // key.
    int given[2] = {0, 0};
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      if (p.list[which].width != 0) given[which] = __ldg(p.list[which].lengths + item.row);
    }
    item.length_main = min(max(given[0], 0), p.list[0].width);
    item.length_total = item.length_main + min(max(given[1], 0), p.list[1].width);
    return;
  }
  item.length_main = row_length(p, 0, item.row, lane);
  item.length_total = item.length_main + row_length(p, 1, item.row, lane);
}

// The CTA's item of a round: there and back over the CTAs, so that with items in falling order
// nobody gets the longest of every round.
__device__ __forceinline__ int item_index(int round) {
  const int ctas = static_cast<int>(gridDim.x);
  const int cta = static_cast<int>(blockIdx.x);
  return (round & 1) != 0 ? (round + 1) * ctas - 1 - cta : round * ctas + cta;
}

// The item with that number, row -1 past the end. Called by a whole warp.
__device__ __forceinline__ Item item_at(const DecodeParams& p, int index, int lane) {
  Item item;
  const ItemMap& map = p.map;
  if (map.kind == ItemMapKind::list) {
    if (index >= *map.list_count) return item;
    return map.list[index];
  }
  if (index >= map.items) return item;
  // Pieces of equal number are together, prefixes first: the longest items start first.
  const int piece = index / map.pairs;
  const int pair =
      index - piece * map.pairs;  // heads of a row are neighbours: they share its rows in L2
  item.row = pair / p.head_blocks;
  item.head_block = pair - item.row * p.head_blocks;
  item.chunk_begin = piece * map.piece_chunks;
  item.chunk_end = min(item.chunk_begin + map.piece_chunks, map.chunks);
  item.piece_chunks = map.piece_chunks;
  if (map.pieces > 1) {
    const int first_stored = piece == 0 ? 0 : 1 + item.chunk_begin - map.piece_chunks;
    item.slot = pair * map.stored + first_stored;
  }
  fill_lengths(p, item, lane);
  return item;
}

}  // namespace splitwave::cuda
