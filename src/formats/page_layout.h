// Where a token's bytes lie in a paged cache. Owns the drawings of both page formats and the one
// conversion from slot to byte offsets; reads and writes nothing. Called by the page codec, the
// reference and the CPU kernels; device code mirrors it. Offsets are 64-bit: page * stride passes
// 2^31 in any real pool.
//
// V3.2 page, interleaved:   row i at [i * 656, (i + 1) * 656)
//   row:  [  0, 512) 512 e4m3 codes   [512, 528) 4 fp32 scales   [528, 656) 64 bf16 RoPE dims
// V4 page of P tokens, planar:   data row i at [i * 576, ...), scale row i at [P * 576 + i * 8,
// ...)
//   data row:   [0, 448) 448 e4m3 codes   [448, 576) 64 bf16 RoPE dims
//   scale row:  [0, 7) 7 e8m0 scales      [7, 8) pad, ignored
// Bytes of the stride beyond the page's own belong to nobody and are never read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "splitwave/layout.h"
#include "splitwave/problem.h"

namespace splitwave {

struct V32Row {
  std::uint8_t codes[k_v32_nope_dims];
  float scales[k_v32_nope_dims / k_v32_scale_group];
  std::uint16_t rope[k_rope_dims];
};
static_assert(offsetof(V32Row, scales) == k_v32_scale_offset_bytes &&
              k_v32_scale_offset_bytes == 512);
static_assert(offsetof(V32Row, rope) == k_v32_rope_offset_bytes && k_v32_rope_offset_bytes == 528);
static_assert(sizeof(V32Row) == k_v32_row_bytes && k_v32_row_bytes == 656);
static_assert(k_v32_nope_dims + k_rope_dims == k_v32_qk_dims);

struct V4DataRow {
  std::uint8_t codes[k_v4_nope_dims];
  std::uint16_t rope[k_rope_dims];
};
struct V4ScaleRow {
  std::uint8_t scales[k_v4_scales];
  std::uint8_t pad;
};
static_assert(offsetof(V4DataRow, rope) == k_v4_rope_offset_bytes && k_v4_rope_offset_bytes == 448);
static_assert(sizeof(V4DataRow) == k_v4_data_bytes && k_v4_data_bytes == 576);
static_assert(offsetof(V4ScaleRow, pad) == 7 && sizeof(V4ScaleRow) == k_v4_scale_bytes);
static_assert(k_v4_data_bytes + k_v4_scale_bytes == k_v4_row_bytes && k_v4_row_bytes == 584);
static_assert(k_v4_scales * k_v4_scale_group == k_v4_nope_dims);
static_assert(k_v4_nope_dims + k_rope_dims == k_v4_qk_dims && k_v4_qk_dims == k_value_dims);

// Byte offsets of one token's parts from the base of the pool.
struct SlotOffsets {
  std::int64_t codes = 0;
  std::int64_t scales = 0;
  std::int64_t rope = 0;

  bool operator==(const SlotOffsets&) const = default;
};

// Whether an index names a token of the pool. Division, not pages * page_size: that could overflow.
[[nodiscard]] constexpr bool is_valid_slot(const CacheView& cache, std::int64_t slot) {
  return slot >= 0 && slot / cache.page_size < cache.pages;
}

// slot must be valid.
[[nodiscard]] constexpr SlotOffsets slot_offsets(KvFormat format, int page_size,
                                                 std::int64_t page_stride_bytes,
                                                 std::int64_t slot) {
  const std::int64_t page = slot / page_size * page_stride_bytes;
  const std::int64_t offset = slot % page_size;
  if (format == KvFormat::v32) {
    const std::int64_t row = page + offset * k_v32_row_bytes;
    return {row, row + k_v32_scale_offset_bytes, row + k_v32_rope_offset_bytes};
  }
  const std::int64_t row = page + offset * k_v4_data_bytes;
  const std::int64_t scales =
      page + std::int64_t{page_size} * k_v4_data_bytes + offset * k_v4_scale_bytes;
  return {row, scales, row + k_v4_rope_offset_bytes};
}

// A pool that may be written: CacheView with mutable bytes.
struct MutableCacheView {
  std::uint8_t* base = nullptr;
  std::int64_t pages = 0;
  int page_size = 1;
  std::int64_t page_stride_bytes = 0;

  [[nodiscard]] CacheView view() const { return {base, pages, page_size, page_stride_bytes}; }
};

}  // namespace splitwave
