// The softmax step of one 64-row block by the warpgroup that owns it. Owns the reference (lazy, per
// head), the probabilities in the operand type, the block's sums. Its arithmetic is part of the
// numerics class:
//
//   t_i  = fma(s_i, scale * log2 e, -m)           p_i = 2^t_i         invalid tokens: p_i = 0
//   m    stays unless unset or max_i t_i > 8 in this block; then m' = max_i s_i * scale * log2 e
//   and what was
//        accumulated is multiplied by 2^(m - m')
//   sum  p(g) + p(g+8), then over g bits 2, 1, 0 (a fixed tree), then (w0 + w1) + (w2 + w3) over
//   the warps
//
// P is rounded to the operand type for the products. A key that carries a head alone has p = 1,
// exact, where the reference is its own score, but under a lazy reference p's rounding (2^-9) would
// stay in the result beside that of the output. So the rounded P are summed too, and O is divided
// by their sum: O * (l / l_rounded) / l. The log-sum-exp and merges use l itself.
//
// The decision is per head, so splitting heads over CTAs cannot change a bit. The fast path does
// not compute maxima: it notices that some sum of 16 probabilities left [0, 256], which any t > 8,
// an unset reference and NaN all imply, and then goes through the exact rule.
#pragma once

#include "kernels/cuda/common/ptx.cuh"
#include "kernels/cuda/common/softmax.cuh"
#include "kernels/cuda/sm90a/config.h"
#include "kernels/cuda/sm90a/dequant.cuh"
#include "kernels/cuda/sm90a/qk.cuh"
#include "kernels/cuda/sm90a/wgmma.cuh"

namespace splitwave::cuda::sm90a {

inline constexpr float k_lazy_bound_log2 = 8.0F;
inline constexpr float k_lazy_sum_max = 256.0F;  // 2^k_lazy_bound_log2

// Reduces v[i] over the 8 lanes that share c; the lane ends with k_kept values, those of columns
// first_kept .. first_kept + k_kept - 1. Each step a lane keeps half of what it has and adds the
// partner's half, so the tree over lanes is the same whatever k_values is.
template <int k_values, class Combine>
__device__ __forceinline__ int reduce_over_rows(float (&v)[k_values], int lane, Combine combine) {
  constexpr unsigned k_all = 0xFFFFFFFFU;
  int first = 0;
  int count = k_values;
#pragma unroll
  for (int step = 0; step < 3; ++step) {
    const int mask = 16 >> step;
    const bool upper = (lane & mask) != 0;
    if (count > 1) {
      count /= 2;
#pragma unroll
      for (int i = 0; i < k_values / 2; ++i) {
        if (i >= count) break;
        const float sent = upper ? v[i] : v[i + count];
        const float kept = upper ? v[i + count] : v[i];
        v[i] = combine(kept, __shfl_xor_sync(k_all, sent, mask));
      }
      first += upper ? count : 0;
    } else {
      v[0] = combine(v[0], __shfl_xor_sync(k_all, v[0], mask));
    }
  }
  return first;
}

// Column index i of a thread's reduction array is head 8 * (i / 2) + 2c + i % 2.
template <int k_heads>
inline constexpr int k_kept_columns = k_heads / 4 >= 8 ? k_heads / 32 : 1;

template <int k_heads>
__device__ __forceinline__ void store_kept(std::uint32_t to, const float (&v)[k_heads / 4],
                                           int first, int c) {
  const std::uint32_t at = to + (8 * (first >> 1) + 2 * c + (first & 1)) * 4;
  if constexpr (k_kept_columns<k_heads> == 2) {
    ptx::store_f32x2(at, v[0], v[1]);
  } else {
    ptx::store_f32(at, v[0]);
  }
}

struct SoftmaxBlock {
  std::uint32_t smem;
  std::uint32_t stage;    // the warp's 16 raw rows
  int group, warp, lane;  // warpgroup, warp of it
  int slot;               // of the block's buffers
  unsigned valid;         // bit per token of the warp's tile
  bool shifted;           // some token's scales were shifted: see qk.cuh
  bool nan_code;          // the warp saw an fp8 NaN code in this item
  float scale_log2;
};

// The thread's two tokens' factors 2^shift.
struct ShiftFactors {
  float low, high;
};

template <class V>
__device__ __forceinline__ ShiftFactors shift_factors(std::uint32_t table, int lane) {
  auto factor = [&](int row) {
    const std::uint32_t shift = load_u16(table + row * 16 + 14);
    return shift == k_shift_nan ? quiet_nan() : __uint_as_float((shift + 127U) << 23);
  };
  return {factor(lane >> 2), factor((lane >> 2) + 8)};
}

// Invalid tokens get -inf; shifted tokens their factor back.
template <class V>
__device__ __forceinline__ void fix_scores(float (&s)[V::shape.config.block_heads / 2],
                                           const SoftmaxBlock& b, const ShiftFactors& factors) {
  constexpr int k_tiles = V::shape.config.block_heads / 8;
  const int g = b.lane >> 2;
  if (b.shifted) {
#pragma unroll
    for (int i = 0; i < k_tiles; ++i) {
      s[4 * i] *= factors.low;
      s[4 * i + 1] *= factors.low;
      s[4 * i + 2] *= factors.high;
      s[4 * i + 3] *= factors.high;
    }
  }
  if (b.valid != 0xFFFFU) {
    const bool low = ((b.valid >> token_of_row(g)) & 1) != 0;
    const bool high = ((b.valid >> token_of_row(g + 8)) & 1) != 0;
#pragma unroll
    for (int i = 0; i < k_tiles; ++i) {
      s[4 * i] = low ? s[4 * i] : minus_infinity();
      s[4 * i + 1] = low ? s[4 * i + 1] : minus_infinity();
      s[4 * i + 2] = high ? s[4 * i + 2] : minus_infinity();
      s[4 * i + 3] = high ? s[4 * i + 3] : minus_infinity();
    }
  }
}

// Probabilities against the reference at m_address: packed in packed[2 i + r] (row g + 8r, heads 8i
// + 2c and the next), summed over the thread's two rows in sums.
template <class V>
__device__ __forceinline__ void probabilities(
    const float (&s)[V::shape.config.block_heads / 2], std::uint32_t m_address, float scale_log2,
    int c, std::uint32_t (&packed)[V::shape.config.block_heads / 4],
    float (&sums)[V::shape.config.block_heads / 4]) {
  constexpr int k_tiles = V::shape.config.block_heads / 8;
  constexpr bool k_f16 = V::shape.config.operands == OperandType::f16;
#pragma unroll
  for (int i = 0; i < k_tiles; ++i) {
    const float2 m = ptx::load_f32x2(m_address + (8 * i + 2 * c) * 4);
    float p00 = exp2_fast(fmaf(s[4 * i], scale_log2, -m.x));
    float p01 = exp2_fast(fmaf(s[4 * i + 1], scale_log2, -m.y));
    float p10 = exp2_fast(fmaf(s[4 * i + 2], scale_log2, -m.x));
    float p11 = exp2_fast(fmaf(s[4 * i + 3], scale_log2, -m.y));
    packed[2 * i] = pack_operand<k_f16>(p00, p01);
    packed[2 * i + 1] = pack_operand<k_f16>(p10, p11);
    sums[2 * i] = p00 + p10;
    sums[2 * i + 1] = p01 + p11;
  }
}

// The thread's sums of its rounded probabilities.
template <class V>
__device__ __forceinline__ void rounded_sums(
    const std::uint32_t (&packed)[V::shape.config.block_heads / 4],
    float (&sums)[V::shape.config.block_heads / 4]) {
  constexpr bool k_f16 = V::shape.config.operands == OperandType::f16;
#pragma unroll
  for (int i = 0; i < V::shape.config.block_heads / 8; ++i) {
    const float2 low = unpack_operand<k_f16>(packed[2 * i]);
    const float2 high = unpack_operand<k_f16>(packed[2 * i + 1]);
    sums[2 * i] = low.x + high.x;
    sums[2 * i + 1] = low.y + high.y;
  }
}

// P^T of the warp's 16 tokens into the block's core matrices.
template <class V>
__device__ __forceinline__ void store_p(
    std::uint32_t p_block, const std::uint32_t (&packed)[V::shape.config.block_heads / 4], int warp,
    int lane) {
  constexpr int k_n = V::shape.config.block_heads;
  // Lane l names the row of one 8x8 matrix: token half (l / 8) % 2, head tile l / 16, head l % 8.
  const std::uint32_t at =
      p_block + (2 * warp + ((lane >> 3) & 1)) * (16 * k_n) + (lane >> 4) * 128 + (lane & 7) * 16;
  if constexpr (k_n == 8) {
    store_matrix_x2_transposed(
        p_block + (2 * warp + ((lane >> 3) & 1)) * (16 * k_n) + (lane & 7) * 16, packed[0],
        packed[1]);
  } else {
#pragma unroll
    for (int i = 0; i < k_n / 8; i += 2) {
      store_matrix_x4_transposed(at + i * 128, packed[2 * i], packed[2 * i + 1], packed[2 * i + 2],
                                 packed[2 * i + 3]);
    }
  }
}

// The exact rule for a new reference; see the top of this file. All 128 threads of the warpgroup.
// m_use becomes what to subtract: 0 while unset (all scores are -inf), NaN when an fp8 code of the
// block is NaN, so that every p is NaN.
template <class V>
__device__ __forceinline__ void update_reference(const float (&s)[V::shape.config.block_heads / 2],
                                                 const SoftmaxBlock& b) {
  constexpr Sm90aShape k_plan = V::shape;
  constexpr int k_n = V::shape.config.block_heads;
  const std::uint32_t scratch = b.smem + k_plan.sum + b.slot * (8 * k_n * 4);
  float most[k_n / 4];
#pragma unroll
  for (int i = 0; i < k_n / 8; ++i) {
    most[2 * i] = fmaxf(s[4 * i], s[4 * i + 2]);
    most[2 * i + 1] = fmaxf(s[4 * i + 1], s[4 * i + 3]);
  }
  const int first = reduce_over_rows(most, b.lane, [](float x, float y) { return fmaxf(x, y); });
  // The sums written a moment ago share this space, but each warp writes its own part of both.
  store_kept<k_n>(scratch + b.warp * (k_n * 4), most, first, b.lane & 3);
  const bool has_nan = named_sync_or(k_bar_group + b.group, 128, b.nan_code);
  const int head = b.warp * 32 + b.lane;
  bool moved = false;
  if (head < k_n) {
    float largest = minus_infinity();
#pragma unroll
    for (int w = 0; w < 4; ++w)
      largest = fmaxf(largest, ptx::load_f32(scratch + (w * k_n + head) * 4));
    const float m = ptx::load_f32(b.smem + k_plan.m + head * 4);
    const bool unset = m == minus_infinity();
    const bool exceeds =
        unset ? largest > minus_infinity() : fmaf(largest, b.scale_log2, -m) > k_lazy_bound_log2;
    const float m_new = exceeds ? largest * b.scale_log2 : m;
    const float factor = exceeds && !unset ? exp2_fast(m - m_new) : 1.0F;
    moved = factor != 1.0F;
    ptx::store_f32(b.smem + k_plan.m + head * 4, m_new);
    ptx::store_f32(b.smem + k_plan.m_use + head * 4, has_nan                     ? quiet_nan()
                                                     : m_new == minus_infinity() ? 0.0F
                                                                                 : m_new);
    ptx::store_f32(b.smem + k_plan.factor + (b.slot * k_n + head) * 4, factor);
  }
  const bool any_moved = named_sync_or(k_bar_group + b.group, 128, moved);
  if (b.warp == 0 && b.lane == 0)
    ptx::store_u32(b.smem + k_plan.flag + b.slot * 4, any_moved ? 1 : 0);
}

template <class V>
__device__ __forceinline__ void softmax_block(float (&s)[V::shape.config.block_heads / 2],
                                              const SoftmaxBlock& b) {
  constexpr Sm90aConfig k_config = V::shape.config;
  constexpr Sm90aShape k_plan = V::shape;
  constexpr int k_n = k_config.block_heads;
  constexpr bool k_f16 = k_config.operands == OperandType::f16;
  const int c = b.lane & 3;
  const std::uint32_t p_block = b.smem + k_plan.p + b.slot * (k_sm90a_block_rows * k_n * 2);
  const std::uint32_t table = b.smem + k_plan.scale_q + (b.group * 4 + b.warp) * 256;

  // This tile's scales for PV, by fragment row: V4 16-bit [row / 2][group][row % 2], V3.2 fp32
  // [row][4].
  const int row = 16 * b.warp + (b.lane >> 1);
  const std::uint32_t scale_t = b.smem + k_plan.scale_t + b.slot * 1024;
  if constexpr (k_config.format == KvFormat::v4) {
    const uint2 four = ptx::load_u64(table + (b.lane >> 1) * 16 + (b.lane & 1) * 8);
    const std::uint32_t to = scale_t + (row >> 1) * 32 + (b.lane & 1) * 16 + (row & 1) * 2;
    store_u16(to, four.x);
    store_u16(to + 4, four.x >> 16);
    store_u16(to + 8, four.y);
    store_u16(to + 12, four.y >> 16);
  } else {
    const uint2 two =
        ptx::load_u64(b.stage + token_of_row(b.lane >> 1) * sm90a_row_bytes(KvFormat::v32) +
                      k_v32_scale_offset_bytes + (b.lane & 1) * 8);
    store_u64(scale_t + row * 16 + (b.lane & 1) * 8, two.x, two.y);
  }
  ShiftFactors factors{1.0F, 1.0F};
  if (k_config.format == KvFormat::v4 && b.shifted) factors = shift_factors<V>(table, b.lane);
  fix_scores<V>(s, b, factors);
  if (b.warp == 0 && b.lane == 0) ptx::store_u32(b.smem + k_plan.flag + b.slot * 4, 0);

  std::uint32_t m_address = b.smem + k_plan.m;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    std::uint32_t packed[k_n / 4];
    float sums[k_n / 4];
    probabilities<V>(s, m_address, b.scale_log2, c, packed, sums);
    const auto add = [](float x, float y) { return x + y; };
    const std::uint32_t to = b.smem + k_plan.sum + (b.slot * 8 + b.warp) * (k_n * 4);
    int first = reduce_over_rows(sums, b.lane, add);
    store_kept<k_n>(to, sums, first, c);
    bool vote = b.nan_code;
#pragma unroll
    for (int i = 0; i < k_kept_columns<k_n>; ++i) vote |= !(sums[i] <= k_lazy_sum_max);
    rounded_sums<V>(packed, sums);
    first = reduce_over_rows(sums, b.lane, add);
    store_kept<k_n>(to + 4 * k_n * 4, sums, first, c);
    if (k_config.format == KvFormat::v4 && b.shifted) {
      const std::uint32_t low = pack_operand<k_f16>(factors.low, factors.low);
      const std::uint32_t high = pack_operand<k_f16>(factors.high, factors.high);
#pragma unroll
      for (int i = 0; i < k_n / 8; ++i) {
        packed[2 * i] =
            k_f16 ? multiply_f16x2(packed[2 * i], low) : multiply_bf16x2(packed[2 * i], low);
        packed[2 * i + 1] = k_f16 ? multiply_f16x2(packed[2 * i + 1], high)
                                  : multiply_bf16x2(packed[2 * i + 1], high);
      }
    }
    store_p<V>(p_block, packed, b.warp, b.lane);
    fence_async_proxy();
    // P of this block is complete for this warpgroup, and everyone knows whether it has to be
    // redone.
    if (!named_sync_or(k_bar_group + b.group, 128, vote) || pass == 1) break;
    update_reference<V>(s, b);
    m_address = b.smem + k_plan.m_use;
  }
}

}  // namespace splitwave::cuda::sm90a
