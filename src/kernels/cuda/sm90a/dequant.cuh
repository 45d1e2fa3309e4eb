// From raw cache bytes in registers to A-operand registers. Owns the exact conversions: e4m3 codes
// times their scale to bf16 (integer placement plus one bf16 multiply, exact for every code and
// every scale 2^-127..2^7) or to f16 (declared range), V3.2's fp32 scales with one rounding. Does
// not touch memory.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/cuda/sm90a/fragment_map.h"

namespace splitwave::cuda::sm90a {

__device__ __forceinline__ std::uint32_t permute(std::uint32_t a, std::uint32_t b,
                                                 std::uint32_t selector) {
  std::uint32_t r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
  return r;
}

__device__ __forceinline__ std::uint32_t multiply_bf16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t r;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}

__device__ __forceinline__ std::uint32_t multiply_f16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t r;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}

__device__ __forceinline__ std::uint32_t pack_bf16x2(float low, float high) {
  std::uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

__device__ __forceinline__ std::uint32_t pack_f16x2(float low, float high) {
  std::uint32_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

template <bool k_is_f16>
__device__ __forceinline__ std::uint32_t pack_operand(float low, float high) {
  return k_is_f16 ? pack_f16x2(low, high) : pack_bf16x2(low, high);
}

template <bool k_is_f16>
__device__ __forceinline__ float2 unpack_operand(std::uint32_t v) {
  if constexpr (k_is_f16) return __half22float2(*reinterpret_cast<const __half2*>(&v));
  return {__uint_as_float(v << 16), __uint_as_float(v & 0xFFFF0000U)};
}

__device__ __forceinline__ std::uint32_t bf16x2_to_f16x2(std::uint32_t v) {
  return pack_f16x2(__uint_as_float(v << 16), __uint_as_float(v & 0xFFFF0000U));
}

// Byte pairs of a 32-bit word of four codes: consecutive dims (QK reads rows along dims) ...
inline constexpr std::uint32_t k_pick_01 =
    0x9180;  // bytes 0, 1, each followed by its sign, replicated
inline constexpr std::uint32_t k_pick_23 = 0xB3A2;
// ... or the same dim of two tokens (PV reads ldmatrix-transposed byte pairs).
inline constexpr std::uint32_t k_pick_02 = 0xA280;
inline constexpr std::uint32_t k_pick_13 = 0xB391;

// Two codes as bf16, value * 2^-120: sign to bit 15, the seven magnitude bits to bits 10..4. bf16's
// subnormals hold e4m3's. A NaN code (magnitude 0x7F) comes out as 480: see wgmma_probe_nan.
__device__ __forceinline__ std::uint32_t codes_to_bf16x2(std::uint32_t word, std::uint32_t pick) {
  return (permute(word, 0, pick) << 4) & 0x87F087F0U;
}

// Two codes (the low or high half of a word) as f16x2, exact, NaN codes to NaN.
__device__ __forceinline__ std::uint32_t codes_to_f16x2(std::uint32_t half_word) {
  std::uint32_t r;
  asm("{\n.reg .b16 pair;\ncvt.u16.u32 pair, %1;\ncvt.rn.f16x2.e4m3x2 %0, pair;\n}"
      : "=r"(r)
      : "r"(half_word));
  return r;
}

// e8m0 scales (2^(e - 127)) of the operand type, two packed. bf16: 2^(e - 127 + 120), to pair with
// codes_to_bf16x2; exact for e <= 134, larger ones were shifted down before (see
// shift_large_scales).
template <bool k_is_f16>
__device__ __forceinline__ std::uint32_t scale_pair(std::uint32_t e_low, std::uint32_t e_high) {
  if constexpr (k_is_f16) {
    auto one = [](std::uint32_t e) -> std::uint32_t {
      return e >= 113 ? (e - 112) << 10 : e >= 103 ? 1U << (e - 103) : 0U;
    };
    return one(e_low) | (one(e_high) << 16);
  } else {
    return (e_low | (e_high << 16)) * 0x80U + 0x3C003C00U;
  }
}
template <bool k_is_f16>
inline constexpr std::uint32_t k_scale_exponent_max = k_is_f16 ? 142 : 134;

// V4: four codes of one token to two A registers; scale is splat.
template <bool k_is_f16>
__device__ __forceinline__ void dequant_row_word(std::uint32_t word, std::uint32_t scale,
                                                 std::uint32_t& a_low, std::uint32_t& a_high) {
  if constexpr (k_is_f16) {
    a_low = multiply_f16x2(codes_to_f16x2(word), scale);
    a_high = multiply_f16x2(codes_to_f16x2(word >> 16), scale);
  } else {
    a_low = multiply_bf16x2(codes_to_bf16x2(word, k_pick_01), scale);
    a_high = multiply_bf16x2(codes_to_bf16x2(word, k_pick_23), scale);
  }
}

// V4: bytes (token A: dims d, d+1; token B: dims d, d+1) to (A, B) at dim d and at dim d + 1;
// scales is (A's, B's).
template <bool k_is_f16>
__device__ __forceinline__ void dequant_column_word(std::uint32_t word, std::uint32_t scales,
                                                    std::uint32_t& a_even, std::uint32_t& a_odd) {
  if constexpr (k_is_f16) {
    const std::uint32_t even = permute(word, 0, 0x0020);  // bytes 0, 2 to the low half
    const std::uint32_t odd = permute(word, 0, 0x0031);
    a_even = multiply_f16x2(codes_to_f16x2(even), scales);
    a_odd = multiply_f16x2(codes_to_f16x2(odd), scales);
  } else {
    a_even = multiply_bf16x2(codes_to_bf16x2(word, k_pick_02), scales);
    a_odd = multiply_bf16x2(codes_to_bf16x2(word, k_pick_13), scales);
  }
}

// V3.2: value = code * fp32 scale, rounded to bf16 once: see sticky_bit. Two codes of the low or
// high half of a word to fp32.
__device__ __forceinline__ float2 codes_to_f32x2(std::uint32_t half_word) {
  const std::uint32_t h = codes_to_f16x2(half_word);
  return __half22float2(*reinterpret_cast<const __half2*>(&h));
}

struct ScaleF32 {
  float value;
  std::uint32_t sticky;
};
__device__ __forceinline__ ScaleF32 scale_f32(std::uint32_t bits) {
  return {__uint_as_float(bits), sticky_bit(bits)};
}
__device__ __forceinline__ float scaled(float code, const ScaleF32& scale) {
  return __uint_as_float(__float_as_uint(__fmul_rz(code, scale.value)) | scale.sticky);
}

__device__ __forceinline__ void dequant_row_word_f32(std::uint32_t word, const ScaleF32& scale,
                                                     std::uint32_t& a_low, std::uint32_t& a_high) {
  const float2 low = codes_to_f32x2(word);
  const float2 high = codes_to_f32x2(word >> 16);
  a_low = pack_bf16x2(scaled(low.x, scale), scaled(low.y, scale));
  a_high = pack_bf16x2(scaled(high.x, scale), scaled(high.y, scale));
}

// s, t: of the two tokens.
__device__ __forceinline__ void dequant_column_word_f32(std::uint32_t word, const ScaleF32& s,
                                                        const ScaleF32& t, std::uint32_t& a_even,
                                                        std::uint32_t& a_odd) {
  const float2 a = codes_to_f32x2(word);
  const float2 b = codes_to_f32x2(word >> 16);
  a_even = pack_bf16x2(scaled(a.x, s), scaled(b.x, t));
  a_odd = pack_bf16x2(scaled(a.y, s), scaled(b.y, t));
}

}  // namespace splitwave::cuda::sm90a
