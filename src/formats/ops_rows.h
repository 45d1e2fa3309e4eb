// What happens to one row on its way into a cache: RoPE, the Hadamard rotation, quantisation. Owns
// the exact meaning of the bytes that KvWriteCall, IndexerKeyWriteCall, IndexerQueryCall and the
// compressor produce: every backend gives these bytes, bit for bit. Host code, one row at a time,
// no pages. Blocks that hold a NaN or an infinity become NaN as a whole (scale NaN, codes 0x7F or
// 7).
#pragma once

#include <cstdint>

#include "splitwave/ops.h"

namespace splitwave {

// The frequencies of one RoPE profile. yarn_factor 1: plain. Sources: the V4 reference model, whose
// compressed layers use theta 160000 with YaRN and whose window-only layers use 10000 without; no
// attention factor in either.
struct RopeProfile {
  double theta = 10000.0;
  double yarn_factor = 1.0;
  double original_positions = 65536.0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
};
inline constexpr RopeProfile k_v4_window_rope{};
inline constexpr RopeProfile k_v4_compressed_rope{160000.0, 16.0, 65536.0, 32.0, 1.0};

// Fills positions [first, first + count) of a RopeTable: out is [count, 64]. The angle is the fp32
// product of position and fp32 frequency, as in the reference model; its cosine and sine are
// rounded once.
void fill_rope_table(const RopeProfile& profile, std::int64_t first, std::int64_t count,
                     float* out);

// op_bf16 of formats/ops_math.h as a code.
[[nodiscard]] std::uint16_t bf16_code(float value);

// Rotates 64 bf16 dims in place by one table row.
void rotate_rope(std::uint16_t* dims, const float* cos_sin);
// Rotates 128 bf16 dims in place by H_128 / sqrt(128).
void rotate_hadamard(std::uint16_t* dims);

// data 576 bytes, scales 8 bytes.
void quantise_v4_row(const std::uint16_t* nope, const std::uint16_t* rope, std::uint8_t* data,
                     std::uint8_t* scales);
// row 656 bytes.
void quantise_v32_row(const std::uint16_t* nope, const std::uint16_t* rope, ScaleRounding rounding,
                      std::uint8_t* row);
// values: 128, 64 or 256 bytes; scales: 4 bytes (fp32 or four e8m0), not written for bf16.
void quantise_indexer_row(IndexerFormat format, ScaleRounding rounding, const std::uint16_t* dims,
                          std::uint8_t* values, std::uint8_t* scales);
// The 128 exact values of a stored key or query, an fp8 row's scale apart (it is returned; else 1).
float dequantise_indexer_row(IndexerFormat format, const std::uint8_t* values,
                             const std::uint8_t* scales, float* dims);

// Where slot = page * page_size + offset lies in a planar pool; byte offsets from the base.
struct SlotBytes {
  std::int64_t values = 0;
  std::int64_t scales = 0;
};
[[nodiscard]] constexpr SlotBytes planar_slot_bytes(std::int64_t slot, int page_size,
                                                    std::int64_t page_stride_bytes, int value_bytes,
                                                    int scale_bytes) {
  const std::int64_t page = slot / page_size;
  const std::int64_t offset = slot % page_size;
  const std::int64_t base = page * page_stride_bytes;
  return {base + offset * value_bytes,
          base + std::int64_t{page_size} * value_bytes + offset * scale_bytes};
}

}  // namespace splitwave
