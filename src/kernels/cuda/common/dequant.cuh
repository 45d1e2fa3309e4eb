// fp8 codes to matrix operands, in registers. Owns the conversions and their exactness: every e4m3
// code (subnormals and NaN included) and every e8m0 scale up to 2^7 by the fast path, beyond by the
// slow one. Checked through whole decode calls (tests/gpu); a test of every code with every scale
// alone is still to be written.
#pragma once

#include <cstdint>

namespace splitwave::cuda {

// prmt with all four bits of each selector nibble: 8 + i replicates byte i's sign. __byte_perm
// clears the top bits, which would lose every sign.
__device__ __forceinline__ std::uint32_t permute_bytes(std::uint32_t a, std::uint32_t b,
                                                       std::uint32_t selector) {
  std::uint32_t out;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(selector));
  return out;
}

// Four e4m3 codes to two f16 pairs, the codes' own order. Exact: value = code * k_code_f16_scale.
//   sm_89 and up: one cvt a pair; a NaN code gives NaN.
//   before: integer. The byte's 7 magnitude bits land on f16's exponent and mantissa with the bias
//   difference 15 - 7 = 8 as a factor 2^-8, subnormals included; NaN codes come out as 480 * 2^-8
//   and are found by has_nan_code.
#if __CUDA_ARCH__ >= 890
inline constexpr float k_code_f16_scale = 1.0F;
inline constexpr bool k_convert_keeps_nan = true;
#else
inline constexpr float k_code_f16_scale = 1.0F / 256.0F;
inline constexpr bool k_convert_keeps_nan = false;
#endif

__device__ __forceinline__ uint2 e4m3x4_to_f16(std::uint32_t codes) {
  uint2 out;
#if __CUDA_ARCH__ >= 890
  asm("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %2; cvt.rn.f16x2.e4m3x2 %0, lo; "
      "cvt.rn.f16x2.e4m3x2 %1, hi; }"
      : "=r"(out.x), "=r"(out.y)
      : "r"(codes));
#else
  // prmt selector nibble 8 + i replicates byte i's sign: halves are [sign x 8 | byte].
  out.x = (permute_bytes(codes, 0, 0x9180) << 7) & 0xBF80BF80U;
  out.y = (permute_bytes(codes, 0, 0xB3A2) << 7) & 0xBF80BF80U;
#endif
  return out;
}

__device__ __forceinline__ float2 f16x2_to_f32(std::uint32_t pair) {
  float2 v;
  asm("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %2; cvt.f32.f16 %0, lo; cvt.f32.f16 %1, hi; }"
      : "=f"(v.x), "=f"(v.y)
      : "r"(pair));
  return v;
}

// Nonzero when one of the four codes is a NaN (0x7F or 0xFF).
__device__ __forceinline__ std::uint32_t has_nan_code(std::uint32_t codes) {
  return ((codes & 0x7F7F7F7FU) + 0x01010101U) & 0x80808080U;
}

// bf16 pair (code of `a`, code of `b`) * 2^-120, both at byte `Byte` of their word: sign to bit 15,
// the 7 magnitude bits to bits 10..4. Exact, subnormals included; NaN codes come out as 480 *
// 2^-120 (a NaN has already reached the score, and P is NaN).
template <int Byte>
__device__ __forceinline__ std::uint32_t e4m3_pair_to_bf16(std::uint32_t a, std::uint32_t b) {
  constexpr std::uint32_t selector =
      Byte | ((8 + Byte) << 4) | ((4 + Byte) << 8) | ((12 + Byte) << 12);
  return (permute_bytes(a, b, selector) << 4) & 0x87F087F0U;
}

// Product of bf16 pairs, exact when one factor is a power of two and the result is normal. fma with
// -0 instead of mul: mul.bf16x2 needs sm_90.
__device__ __forceinline__ std::uint32_t multiply_bf16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t out;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(0x80008000U));
  return out;
}

inline constexpr std::uint32_t k_bf16x2_two_to_120 = 0x7B807B80U;  // (127 + 120) << 7, twice

// Two e8m0 scales in the low byte of each half to bf16 pairs of 2^(120 + k), k = e - 127: (e + 120)
// <<
// 7. Valid for e <= 134; beyond, exponent 254 would be passed.
__device__ __forceinline__ std::uint32_t e8m0_pair_to_bf16_times_2_120(std::uint32_t halves) {
  return halves * 0x80U + 0x3C003C00U;
}
inline constexpr std::uint32_t k_e8m0_fast_max = 134;

// Nonzero when one of four e8m0 bytes is above k_e8m0_fast_max: bit 7 set and low bits >= 7.
__device__ __forceinline__ std::uint32_t has_large_scale(std::uint32_t scales) {
  return ((scales & 0x7F7F7F7FU) + 0x79797979U) & scales & 0x80808080U;
}

// e8m0 byte of a word as fp32 2^(e - 127); e = 0 gives 0 (2^-127 is below every product that an
// fp32 score can hold), e = 255 gives inf and is handled by has_nan_scale.
__device__ __forceinline__ float e8m0_to_f32(std::uint32_t word, int byte) {
  return __uint_as_float(__byte_perm(word, 0, 0x0444 | (byte << 12)) >> 1);
}

// Nonzero when one of the four bytes is 0xFF, e8m0's NaN.
__device__ __forceinline__ std::uint32_t has_nan_scale(std::uint32_t scales) {
  return ((scales & 0x7F7F7F7FU) + 0x01010101U) & scales & 0x80808080U;
}

}  // namespace splitwave::cuda
