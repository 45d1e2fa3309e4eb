// S = K Q^T of one 64-row block by one warpgroup: tokens on M, heads on N. Owns the QK phase:
// operand scales of the warp's 16 tokens, dequantisation in registers, one matrix instruction per
// 16 dims. The k order and the operand values are part of the numerics class. Called by the kernels
// of this folder.
#pragma once

#include "kernels/cuda/common/ptx.cuh"
#include "kernels/cuda/sm90a/config.h"
#include "kernels/cuda/sm90a/dequant.cuh"
#include "kernels/cuda/sm90a/fragment_map.h"
#include "kernels/cuda/sm90a/roles.cuh"
#include "kernels/cuda/sm90a/wgmma.cuh"

namespace splitwave::cuda::sm90a {

// V4 only, rare: a token with a scale above the operand's largest (2^7 in bf16). Its scales and
// RoPE dims are divided by 2^shift here; the softmax multiplies its scores, and its P, by 2^shift.
// Exact either way. A NaN scale (255) makes the shift k_shift_nan, which turns the token's scores
// into NaN.
inline constexpr std::uint32_t k_shift_nan = 0x100;

template <bool k_is_f16>
__device__ __forceinline__ std::uint32_t shift_large_scales(std::uint32_t row, std::uint32_t word,
                                                            int lane) {
  // Lanes 2i, 2i + 1 hold the two scale words of one token (pad byte cleared).
  std::uint32_t largest = 0;
  bool is_nan = false;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t e = (word >> (8 * i)) & 0xFF;
    is_nan |= e == 255;
    largest = max(largest, e);
  }
  largest = max(largest, __shfl_xor_sync(0xFFFFFFFFU, largest, 1));
  is_nan = __shfl_xor_sync(0xFFFFFFFFU, static_cast<int>(is_nan), 1) != 0 || is_nan;
  const std::uint32_t shift =
      largest > k_scale_exponent_max<k_is_f16> ? largest - k_scale_exponent_max<k_is_f16> : 0;
  std::uint32_t shifted = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t e = (word >> (8 * i)) & 0xFF;
    shifted |= (e > shift ? e - shift : 0U) << (8 * i);
  }
  if (shift != 0) {
    const std::uint32_t factor = (127U - shift) * 0x00800080U;
    const std::uint32_t rope = row + k_v4_rope_offset_bytes + (lane & 1) * 64;
#pragma unroll 1
    for (int i = 0; i < 16; ++i) {
      ptx::store_u32(rope + 4 * i, multiply_bf16x2(ptx::load_u32(rope + 4 * i), factor));
    }
  }
  // The caller's table: this lane's four scales, and the shift in bits 32.. by the return of the
  // pair.
  ptx::store_u32(row + k_v4_data_bytes + (lane & 1) * 4, shifted);
  return is_nan ? k_shift_nan : shift;
}

// V4: the warp's table of operand scales. Returns whether some token of the warp was shifted.
template <class V>
__device__ __forceinline__ bool prepare_scales(std::uint32_t stage, std::uint32_t table, int lane) {
  constexpr bool k_f16 = V::shape.config.operands == OperandType::f16;
  constexpr std::uint32_t k_above = 0x80U - (k_scale_exponent_max<k_f16> + 1 - 0x80U);
  const int token_row = lane >> 1;
  const int half = lane & 1;
  const std::uint32_t row = stage + token_of_row(token_row) * sm90a_row_bytes(KvFormat::v4);
  const std::uint32_t at = row + k_v4_data_bytes + half * 4;
  std::uint32_t word = ptx::load_u32(at) & (half != 0 ? 0x00FFFFFFU : 0xFFFFFFFFU);
  const std::uint32_t large = word & ((word & 0x7F7F7F7FU) + k_above * 0x01010101U) & 0x80808080U;
  std::uint32_t shift = 0;
  const bool shifted = __any_sync(0xFFFFFFFFU, large != 0);
  if (shifted) {
    shift = shift_large_scales<k_f16>(row, word, lane);
    word = ptx::load_u32(at);
  }
  std::uint32_t low, high;
  if constexpr (k_f16) {
    low = scale_pair<true>(word & 0xFF, (word >> 8) & 0xFF);
    high = scale_pair<true>((word >> 16) & 0xFF, word >> 24);
  } else {
    low = permute(word, 0, 0x4140) * 0x80U + 0x3C003C00U;
    high = permute(word, 0, 0x4342) * 0x80U + 0x3C003C00U;
  }
  if (half != 0) high = (high & 0xFFFFU) | (shift << 16);
  store_u64(table + token_row * 16 + half * 8, low, high);
  __syncwarp();
  return shifted;
}

// The RoPE group's A operands, as stored: four k16 steps.
template <class V>
__device__ __forceinline__ void load_rope(std::uint32_t (&a)[4][4], std::uint32_t row) {
  constexpr KvFormat k_format = V::shape.config.format;
  constexpr int k_rope = sm90a_rope_offset_bytes(k_format);
  constexpr int k_high_row = 8 * sm90a_row_bytes(k_format);
#pragma unroll
  for (int x = 0; x < 2; ++x) {
    uint4 low = ptx::load_u128(row + k_rope + 64 * x);
    uint4 high = ptx::load_u128(row + k_high_row + k_rope + 64 * x);
    if constexpr (V::shape.config.operands == OperandType::f16) {
      low = {bf16x2_to_f16x2(low.x), bf16x2_to_f16x2(low.y), bf16x2_to_f16x2(low.z),
             bf16x2_to_f16x2(low.w)};
      high = {bf16x2_to_f16x2(high.x), bf16x2_to_f16x2(high.y), bf16x2_to_f16x2(high.z),
              bf16x2_to_f16x2(high.w)};
      // V reads the same dims again: it finds them converted.
      ptx::store_u128(row + k_rope + 64 * x, low);
      ptx::store_u128(row + k_high_row + k_rope + 64 * x, high);
    }
    a[2 * x][0] = low.x, a[2 * x][1] = high.x, a[2 * x][2] = low.y, a[2 * x][3] = high.y;
    a[2 * x + 1][0] = low.z, a[2 * x + 1][1] = high.z, a[2 * x + 1][2] = low.w,
              a[2 * x + 1][3] = high.w;
  }
}

// Raw fp8 bytes of one 64-dim group: 16 consecutive dims of the thread's two tokens, and their
// scales: V4 a packed pair of 16-bit scales (groups 2i, 2i + 1), V3.2 the fp32 scale of the 128
// dims.
struct QkRaw {
  uint4 low, high;
  std::uint32_t scale_low, scale_high;
};

template <class V>
__device__ __forceinline__ void load_qk_raw(QkRaw& raw, std::uint32_t row, std::uint32_t scales,
                                            int group) {
  constexpr bool k_v4 = V::shape.config.format == KvFormat::v4;
  constexpr int k_high_row = 8 * sm90a_row_bytes(V::shape.config.format);
  raw.low = ptx::load_u128(row + group * 64);
  raw.high = ptx::load_u128(row + k_high_row + group * 64);
  if (group % 2 == 0) {
    raw.scale_low = ptx::load_u32(scales + group * 2);
    raw.scale_high = ptx::load_u32(scales + group * 2 + (k_v4 ? 8 * 16 : k_high_row));
  }
}

// A operand of k16 step s of a group.
template <class V>
__device__ __forceinline__ void fp8_operand(std::uint32_t (&a)[4], const QkRaw& raw, int group,
                                            int s) {
  constexpr bool k_f16 = V::shape.config.operands == OperandType::f16;
  const std::uint32_t low = s == 0   ? raw.low.x
                            : s == 1 ? raw.low.y
                            : s == 2 ? raw.low.z
                                     : raw.low.w;
  const std::uint32_t high = s == 0   ? raw.high.x
                             : s == 1 ? raw.high.y
                             : s == 2 ? raw.high.z
                                      : raw.high.w;
  if constexpr (V::shape.config.format == KvFormat::v4) {
    const std::uint32_t splat = (group & 1) != 0 ? 0x3232 : 0x1010;
    dequant_row_word<k_f16>(low, permute(raw.scale_low, 0, splat), a[0], a[2]);
    dequant_row_word<k_f16>(high, permute(raw.scale_high, 0, splat), a[1], a[3]);
  } else {
    dequant_row_word_f32(low, scale_f32(raw.scale_low), a[0], a[2]);
    dequant_row_word_f32(high, scale_f32(raw.scale_high), a[1], a[3]);
  }
}

// Operands of a few k16 steps are made together and then multiplied together: one group of matrix
// instructions is in flight while the next one's operands are made. At 64 heads registers allow two
// steps.
template <class V>
inline constexpr int k_qk_batch =
    V::shape.config.block_heads == 64 && V::shape.config.format == KvFormat::v4 ? 2 : 4;

// A batch of operands from k16 step `step` of the k order on.
template <class V>
__device__ __forceinline__ void issue_qk_batch(float (&s)[V::shape.config.block_heads / 2],
                                               const std::uint32_t (&a)[k_qk_batch<V>][4],
                                               std::uint64_t q, int step) {
  constexpr int k_n = V::shape.config.block_heads;
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < k_qk_batch<V>; ++i) {
    // A k16 step of Q is two columns of core matrices, 32 * heads bytes.
    wgmma<k_n, V::shape.config.operands == OperandType::f16>(
        s, a[i], q + static_cast<std::uint64_t>((step + i) * 2 * k_n), step + i > 0);
  }
}

struct QkResult {
  bool shifted;  // some token of the warp: see shift_large_scales
  bool has_nan;  // some fp8 code of the warp's tokens is NaN
};

// The conversion of codes to bf16 by integer operations turns NaN codes into 480: they are looked
// for.
template <class V>
inline constexpr bool k_probes_nan =
    V::shape.config.format == KvFormat::v4&& V::shape.config.operands == OperandType::bf16;

// stage: the 16 rows of this warp; zeros: see wgmma_probe_nan. Scores land in s: rows g and g + 8
// of the tile are tokens token_of_row(g) and 8 + token_of_row(g); s[4 * i + 2 * r + e] is row g +
// 8r, head 8i + 2c + e.
template <class V>
__device__ __forceinline__ QkResult qk_block(float (&s)[V::shape.config.block_heads / 2],
                                             std::uint32_t stage, std::uint32_t scale_table,
                                             std::uint64_t q, std::uint64_t zeros, int lane) {
  constexpr KvFormat k_format = V::shape.config.format;
  constexpr int k_groups = sm90a_groups(k_format) - 1;
  constexpr int k_row = sm90a_row_bytes(k_format);
  const int g = lane >> 2;
  const int c = lane & 3;
  const std::uint32_t tokens = stage + token_of_row(g) * k_row;
  const std::uint32_t row = tokens + c * 16;
  const std::uint32_t scales =
      k_format == KvFormat::v4 ? scale_table + g * 16 : tokens + k_v32_scale_offset_bytes;
  bool shifted = false;
  if constexpr (k_format == KvFormat::v4) shifted = prepare_scales<V>(stage, scale_table, lane);
  std::uint32_t rope[4][4];
  load_rope<V>(rope, row);
  constexpr int k_batch = k_qk_batch<V>;
  QkRaw raw[2];
#pragma unroll
  for (int step = 0; step < 4; step += k_batch) {
    std::uint32_t a[k_batch][4];
#pragma unroll
    for (int i = 0; i < k_batch; ++i) {
#pragma unroll
      for (int r = 0; r < 4; ++r) a[i][r] = rope[step + i][r];
    }
    issue_qk_batch<V>(s, a, q, step);
    wgmma_commit();
    if (step == 0) load_qk_raw<V>(raw[0], row, scales, 0);
    wgmma_wait<1>();
  }
  float probe[4];
  // Unrolled by hand: nvcc keeps a loop of this size, and then the buffers go to local memory.
  unrolled<k_groups>([&](auto index) {
    constexpr int group = decltype(index)::value;
    // A unit ahead: shared memory is busy with B, a load takes 100 clocks and more.
    if (group + 1 < k_groups) {
      raw[(group + 1) & 1].scale_low = raw[group & 1].scale_low;
      raw[(group + 1) & 1].scale_high = raw[group & 1].scale_high;
      load_qk_raw<V>(raw[(group + 1) & 1], row, scales, group + 1);
    }
#pragma unroll
    for (int step = 0; step < 4; step += k_batch) {
      std::uint32_t a[k_batch][4];
#pragma unroll
      for (int i = 0; i < k_batch; ++i) fp8_operand<V>(a[i], raw[group & 1], group, step + i);
      issue_qk_batch<V>(s, a, q, 4 * (group + 1) + step);
      if constexpr (k_probes_nan<V>) {
        if (step == 0) {
          wgmma_probe_nan(probe, raw[group & 1].low, zeros, group > 0);
          wgmma_probe_nan(probe, raw[group & 1].high, zeros, true);
        }
      }
      wgmma_commit();
      wgmma_wait<1>();
    }
  });
  wgmma_wait<0>();
  pin_registers(s);
  bool has_nan = false;
  if constexpr (k_probes_nan<V>) {
    pin_registers(probe);
    const float sum = (probe[0] + probe[1]) + (probe[2] + probe[3]);
    has_nan = __any_sync(0xFFFFFFFFU, sum != sum);
  }
  return {shifted, has_nan};
}

}  // namespace splitwave::cuda::sm90a
