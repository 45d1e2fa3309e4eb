// Where a cache row is. Owns slot -> address, 64-bit throughout. Used by the producers of every
// family.
#pragma once

#include "kernels/cuda/common/item_map.cuh"
#include "kernels/cuda/common/params.h"

namespace splitwave::cuda {

struct RowAddress {
  const std::uint8_t* data = nullptr;    // any readable address when the row is invalid
  const std::uint8_t* scales = nullptr;  // V4
  bool is_valid = false;
  bool is_16_aligned = true;
};

// A row's two lists, ready to be read by position.
struct RowLists {
  const std::int32_t* main_slots;
  const std::int32_t* extra_slots;  // indexed by position in the whole list
  int length_main;
};

__device__ __forceinline__ RowLists lists_of(const DecodeParams& p, int row, int length_main) {
  return {p.list[0].slots + row * p.list[0].row_stride,
          p.list[1].slots + row * p.list[1].row_stride - length_main, length_main};
}

// The list entry at a position of the row, -1 outside [0, end).
__device__ __forceinline__ std::int32_t slot_at(const RowLists& lists, int position, int end) {
  if (position >= end) return -1;
  const std::int32_t* slots =
      position < lists.length_main ? lists.main_slots : lists.extra_slots;
  return __ldg(slots + position);
}

template <KvFormat Format>
__device__ __forceinline__ RowAddress address_of(const DecodeParams& p, std::int32_t slot,
                                                 bool is_main) {
  const CacheParams& cache = p.cache[is_main ? 0 : 1];
  RowAddress row;
  row.data = cache.base;
  row.scales = cache.base;
  row.is_valid = is_valid_slot(cache, slot);
  row.is_16_aligned = cache.is_16_aligned != 0;
  if (!row.is_valid) return row;
  const std::uint32_t page = static_cast<std::uint32_t>(
      (static_cast<std::uint64_t>(slot) * cache.divisor.multiplier) >> cache.divisor.shift);
  const std::uint32_t offset =
      static_cast<std::uint32_t>(slot) - page * cache.divisor.page_size;
  const std::uint8_t* start =
      cache.base + static_cast<std::int64_t>(page) * cache.page_stride_bytes;
  if constexpr (Format == KvFormat::v4) {
    row.data = start + static_cast<std::int64_t>(offset) * k_v4_data_bytes;
    row.scales = start + cache.scales_offset_bytes +
                 static_cast<std::int64_t>(offset) * k_v4_scale_bytes;
  } else {
    row.data = start + static_cast<std::int64_t>(offset) * k_v32_row_bytes;
  }
  return row;
}

}  // namespace splitwave::cuda
