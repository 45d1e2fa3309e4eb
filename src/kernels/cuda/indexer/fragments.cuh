// Keys and queries as matrix operands, in registers. Owns the permutation of the 128 dims: lane (g,
// c) holds 32 dims of key g and of key g + 8, taken from the 16-byte chunks c, c + 4, .. of the
// stored row, and of each head the same dims; the sum over dims does not care which step a dim
// belongs to as long as both operands agree. mma.cuh describes the fragments. Register r of step s
// holds, of the lane's 32:
//   fp8   word s (codes 4s..4s+3): r = 0 its first two codes, r = 1 the others
//   fp4   word s/2 (codes 0..7), j = 2 (s mod 2) + r: codes j and j + 4
//   bf16  word 2s + r
#pragma once

#include <cuda_fp16.h>

#include "kernels/cuda/common/dequant.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/indexer/config.h"

namespace splitwave::cuda {

inline constexpr std::uint32_t k_nan_bits = 0x7FC00000U;

// f16 operands only where both sides are e4m3: every code is an f16. Else bf16.
template <IndexerFormat kKeys, IndexerQuery kQuery>
inline constexpr bool k_is_f16 = kKeys == IndexerFormat::fp8&& kQuery == IndexerQuery::native;

// One tile's raw bytes of a lane: kChunks 16-byte chunks of key g, as many of key g + 8.
template <IndexerFormat kKeys>
struct RawKeys {
  static constexpr int k_chunks = k_indexer_value_bytes<kKeys> / 64;
  uint4 chunk[2][k_chunks];

  __device__ __forceinline__ std::uint32_t word(int key, int index) const {
    const uint4& v = chunk[key][index / 4];
    return index % 4 == 0 ? v.x : index % 4 == 1 ? v.y : index % 4 == 2 ? v.z : v.w;
  }
};

// What a lane needs beside the raw bytes to convert them.
struct KeyContext {
  std::uint32_t factor[2] = {};       // fp4: bf16x2 multiplier of keys g, g + 8
  std::uint32_t more_factor[2] = {};  // fp4, scales above 2: a second multiplier
  std::uint32_t nan[2] = {};          // nonzero: the lane's part of the key holds a NaN code
};

// e2m1 codes j and j + 4 of a word to bf16x2: sign to bit 15, the three magnitude bits to
// bits 8..6, which reads as the value times 2^-126, subnormals included.
__device__ __forceinline__ std::uint32_t e2m1_pair_to_bf16(std::uint32_t word, int j) {
  const std::uint32_t top = word << (12 - 4 * j);
  return (top & 0x80008000U) | ((top >> 6) & 0x01C001C0U);
}

// The multipliers for an e8m0 code: 2^126 * 2^(e - 127) = 2^(e - 1), split in two where bf16 ends.
__device__ __forceinline__ void e2m1_factors(std::uint32_t e, std::uint32_t& factor,
                                             std::uint32_t& more) {
  const std::uint32_t exponent = e + 126;  // biased
  const std::uint32_t first = exponent > 254 ? 254 : exponent;
  std::uint32_t bits = first << 7;
  std::uint32_t rest = (127 + exponent - first) << 7;
  if (e == 255) bits = 0x7FC0U;
  if (e == 255) rest = 127 << 7;
  factor = bits * 0x10001U;
  more = rest * 0x10001U;
}

template <IndexerFormat kKeys, IndexerQuery kQuery, bool kLargeScales>
__device__ __forceinline__ void convert_step(const RawKeys<kKeys>& raw, int step,
                                             KeyContext& context, FragmentA& a) {
#pragma unroll
  for (int key = 0; key < 2; ++key) {
    std::uint32_t low;
    std::uint32_t high;
    if constexpr (kKeys == IndexerFormat::bf16) {
      low = raw.word(key, step * 2);
      high = raw.word(key, step * 2 + 1);
    } else if constexpr (kKeys == IndexerFormat::fp4) {
      const std::uint32_t word = raw.word(key, step / 2);
      low = multiply_bf16x2(e2m1_pair_to_bf16(word, step % 2 * 2), context.factor[key]);
      high = multiply_bf16x2(e2m1_pair_to_bf16(word, step % 2 * 2 + 1), context.factor[key]);
      if constexpr (kLargeScales) {
        low = multiply_bf16x2(low, context.more_factor[key]);
        high = multiply_bf16x2(high, context.more_factor[key]);
      }
    } else if constexpr (k_is_f16<kKeys, kQuery>) {
      const std::uint32_t word = raw.word(key, step);
      const uint2 pair = e4m3x4_to_f16(word);
      low = pair.x;
      high = pair.y;
      if constexpr (!k_convert_keeps_nan) context.nan[key] |= has_nan_code(word);
    } else {
      const std::uint32_t word = raw.word(key, step);
      context.nan[key] |= has_nan_code(word);
      // Bytes 0, 1 and 2, 3 of the word, sign-replicated, to bf16 * 2^-120, then exact.
      const std::uint32_t first = (permute_bytes(word, 0, 0x9180) << 4) & 0x87F087F0U;
      const std::uint32_t second = (permute_bytes(word, 0, 0xB3A2) << 4) & 0x87F087F0U;
      low = multiply_bf16x2(first, k_bf16x2_two_to_120);
      high = multiply_bf16x2(second, k_bf16x2_two_to_120);
    }
    a.r[key] = low;
    a.r[2 + key] = high;
  }
}

// Factor by which an accumulator is short of the dot product.
template <IndexerFormat kKeys, IndexerQuery kQuery>
inline constexpr float k_dot_factor = k_is_f16<kKeys, kQuery> ? 1.0F / k_code_f16_scale : 1.0F;

__device__ __forceinline__ std::uint32_t word_of(const uint4& v, int index) {
  return index == 0 ? v.x : index == 1 ? v.y : index == 2 ? v.z : v.w;
}

// Four e4m3 query codes to two f16 pairs, unscaled. Before sm_89 the conversion is short of 2^8 and
// of NaN: both are put right here, once a row; the keys' factor stays (k_dot_factor).
__device__ __forceinline__ uint2 query_codes_to_f16(std::uint32_t codes) {
  uint2 pair = e4m3x4_to_f16(codes);
  if constexpr (!k_convert_keeps_nan) {
    const __half2 up = __float2half2_rn(1.0F / k_code_f16_scale);
    const __half2 x = __hmul2(*reinterpret_cast<const __half2*>(&pair.x), up);
    const __half2 y = __hmul2(*reinterpret_cast<const __half2*>(&pair.y), up);
    pair.x = has_nan_code(codes) != 0 ? 0x7E007E00U : *reinterpret_cast<const std::uint32_t*>(&x);
    pair.y = *reinterpret_cast<const std::uint32_t*>(&y);
  }
  return pair;
}

// The 32 dims of one head that belong to quad lane c, as operand registers b[step][0..1].
template <IndexerFormat kKeys, IndexerQuery kQuery>
__device__ __forceinline__ void load_head(const std::uint8_t* head_base, const std::uint8_t* scales,
                                          int c, std::uint32_t (&b)[k_logit_steps][2]) {
  const uint4* chunks = reinterpret_cast<const uint4*>(head_base);
  if constexpr (kQuery == IndexerQuery::native && kKeys == IndexerFormat::fp8) {
#pragma unroll
    for (int w = 0; w < 8; ++w) {  // words 0..3 of chunk c, then of chunk c + 4
      const uint2 pair = query_codes_to_f16(word_of(__ldg(chunks + c + w / 4 * 4), w % 4));
      b[w][0] = pair.x;
      b[w][1] = pair.y;
    }
  } else if constexpr (kQuery == IndexerQuery::native && kKeys == IndexerFormat::fp4) {
    const uint4 v = __ldg(chunks + c);
    std::uint32_t factor;
    std::uint32_t more;
    e2m1_factors(scales[c], factor, more);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const std::uint32_t pair = e2m1_pair_to_bf16(word_of(v, i / 4), i % 4);
      b[i / 2][i % 2] = multiply_bf16x2(multiply_bf16x2(pair, factor), more);
    }
  } else if constexpr (kKeys == IndexerFormat::fp8) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {  // 16 bf16 of chunk c's dims, then 16 of chunk c + 4's
      b[i / 2][i % 2] = word_of(__ldg(chunks + i / 8 * 8 + c * 2 + i % 8 / 4), i % 4);
    }
  } else if constexpr (kKeys == IndexerFormat::fp4) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {  // dims 8 w + j and 8 w + j + 4 of the lane's 32, j = i % 4
      const uint4 v = __ldg(chunks + c * 4 + i / 4);
      const std::uint32_t low = i % 4 < 2 ? v.x : v.y;
      const std::uint32_t high = i % 4 < 2 ? v.z : v.w;
      b[i / 2][i % 2] = __byte_perm(low, high, i % 2 == 0 ? 0x5410 : 0x7632);
    }
  } else {
#pragma unroll
    for (int i = 0; i < 16; ++i) b[i / 2][i % 2] = word_of(__ldg(chunks + c + i / 4 * 4), i % 4);
  }
}

// All of a row's query as B operands: tile n's head is 8 n + g. Heads past `heads` are zero.
template <IndexerFormat kKeys, IndexerQuery kQuery, int kHeadTiles>
__device__ __forceinline__ void load_query(const std::uint8_t* row_base, const std::uint8_t* scales,
                                           int heads, int g, int c,
                                           std::uint32_t (&b)[kHeadTiles][k_logit_steps][2]) {
  constexpr IndexerFormat stored = kQuery == IndexerQuery::bf16 ? IndexerFormat::bf16 : kKeys;
#pragma unroll
  for (int n = 0; n < kHeadTiles; ++n) {
    const int head = n * 8 + g;
    const int read = head < heads ? head : 0;
    load_head<kKeys, kQuery>(
        row_base + static_cast<std::int64_t>(read) * k_indexer_value_bytes<stored>,
        scales + read * k_indexer_fp4_scales, c, b[n]);
#pragma unroll
    for (int step = 0; step < k_logit_steps; ++step) {
      if (head >= heads) b[n][step][0] = b[n][step][1] = 0U;
    }
  }
}

}  // namespace splitwave::cuda
