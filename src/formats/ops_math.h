// The fp32 arithmetic of the cache writes and the compressor, one operation a function, the same
// bits on the host and on every GPU: no contraction, no vendor exp, no reciprocal approximation.
// Owns the order of every sum that decides their bits. Included by host code and by .cu files.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#if defined(__CUDACC__)
#define SPLITWAVE_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define SPLITWAVE_HOST_DEVICE inline
#endif

namespace splitwave {

inline constexpr float k_hadamard_factor = 0.08838834764F;  // 128^-0.5

SPLITWAVE_HOST_DEVICE float op_mul(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
SPLITWAVE_HOST_DEVICE float op_add(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}
SPLITWAVE_HOST_DEVICE float op_sub(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fsub_rn(a, b);
#else
  return a - b;
#endif
}
SPLITWAVE_HOST_DEVICE float op_fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}
SPLITWAVE_HOST_DEVICE float op_div(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}
SPLITWAVE_HOST_DEVICE float op_sqrt(float a) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(a);
#else
  return std::sqrt(a);
#endif
}
SPLITWAVE_HOST_DEVICE std::uint32_t bits_of(float a) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(a);
#else
  return std::bit_cast<std::uint32_t>(a);
#endif
}
SPLITWAVE_HOST_DEVICE float float_of(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}
// One rounding to bf16, nearest, ties to even. Every NaN becomes 0x7FC0, so that the bytes agree:
// the sign and payload that a NaN has are the machine's.
SPLITWAVE_HOST_DEVICE std::uint32_t op_bf16(float a) {
  const std::uint32_t bits = bits_of(a);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0x7FC0U;
  return (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
}
// x, and the quiet NaN 0x7FC00000 for every NaN.
SPLITWAVE_HOST_DEVICE float one_nan(float x) { return x == x ? x : float_of(0x7FC00000U); }
// The larger of two; a NaN on either side loses (it comes back through exp_nonpositive).
SPLITWAVE_HOST_DEVICE float op_max(float a, float b) {
#if defined(__CUDA_ARCH__)
  return fmaxf(a, b);
#else
  return std::fmax(a, b);
#endif
}

// exp(x) for x <= 0, within 1.1 ulp down to -87; below -87.3 (and at -inf) 0; NaN gives NaN.
// n = round(x / ln 2) by the 1.5 * 2^23 trick, r = x - n ln 2 in two steps, a degree 6 polynomial
// (Cephes expf coefficients), then the exponent n is added to the bits.
SPLITWAVE_HOST_DEVICE float exp_nonpositive(float x) {
  constexpr float k_smallest = -87.33654F;  // ln 2^-126: smaller results would be subnormal
  if (x < k_smallest) return 0.0F;
  const float shifted = op_fma(x, 1.44269504F, 12582912.0F);
  const float n = op_sub(shifted, 12582912.0F);
  float r = op_fma(n, -0.693359375F, x);
  r = op_fma(n, 2.12194440e-4F, r);
  float p = 1.9875691500e-4F;
  p = op_fma(p, r, 1.3981999507e-3F);
  p = op_fma(p, r, 8.3334519073e-3F);
  p = op_fma(p, r, 4.1665795894e-2F);
  p = op_fma(p, r, 1.6666665459e-1F);
  p = op_fma(p, r, 5.0000001201e-1F);
  p = op_add(op_fma(p, op_mul(r, r), r), 1.0F);
  // shifted's low bits hold n: moving them to the exponent field multiplies by 2^n, n >= -126.
  return x == x ? float_of(bits_of(p) + (bits_of(shifted) << 23)) : x;
}

// One token joins an online softmax: m the running maximum, l the sum of weights, a the weighted K.
SPLITWAVE_HOST_DEVICE void online_softmax_step(float score, float value, float& m, float& l,
                                               float& a) {
  const float m_new = op_max(m, score);
  const float keep = exp_nonpositive(op_sub(m, m_new));
  const float weight = exp_nonpositive(op_sub(score, m_new));
  l = op_fma(l, keep, weight);
  a = op_fma(a, keep, op_mul(weight, value));
  m = m_new;
}

// Softmax over eight tokens, oldest first. Tokens before first do not exist.
SPLITWAVE_HOST_DEVICE float pool_eight(const float* score, const float* value, int first) {
  float m = -INFINITY;
  for (int j = 0; j < 8; ++j) m = j < first ? m : op_max(m, score[j]);
  float l = 0.0F;
  float a = 0.0F;
  for (int j = 0; j < 8; ++j) {
    if (j < first) continue;
    const float weight = exp_nonpositive(op_sub(score[j], m));
    l = op_add(l, weight);
    a = op_fma(weight, value[j], a);
  }
  return op_div(a, l);
}

// Sum of the squares of a thread's four channels; 32 threads' sums are then added by a butterfly of
// spans 16, 8, 4, 2, 1, and groups of 32 threads in ascending order.
SPLITWAVE_HOST_DEVICE float square_sum4(float x0, float x1, float x2, float x3) {
  return op_fma(x3, x3, op_fma(x2, x2, op_fma(x1, x1, op_mul(x0, x0))));
}
SPLITWAVE_HOST_DEVICE float rms_factor(float square_sum, float dims, float eps) {
  return op_div(1.0F, op_sqrt(op_add(op_div(square_sum, dims), eps)));
}

// The least power of two >= value, for a finite positive value in the normal range; NaN otherwise.
SPLITWAVE_HOST_DEVICE float power_of_two_ceil(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t exponent = (bits >> 23) + ((bits & 0x7FFFFFU) != 0 ? 1U : 0U);
  return exponent >= 255 ? float_of(0x7FC00000U) : float_of(exponent << 23);
}

// A block's scale. amax_bits: the largest magnitude among the block's bf16 codes as an integer, so
// that a NaN or an infinity wins and makes the scale, and with it the whole block, NaN.
SPLITWAVE_HOST_DEVICE float block_scale(std::uint32_t amax_bits, float floor, float type_max,
                                        bool power_of_two) {
  if (amax_bits >= 0x7F80U) return float_of(0x7FC00000U);
  const float amax = op_max(float_of(amax_bits << 16), floor);
  const float scale = op_div(amax, type_max);
  return power_of_two ? power_of_two_ceil(scale) : scale;
}

}  // namespace splitwave
