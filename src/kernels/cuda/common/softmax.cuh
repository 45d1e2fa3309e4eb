// Online softmax and the merge of partial results. Owns the arithmetic that fixes a row's bits:
// every family and the combine step use these functions, in explicit rounding modes, so that a
// result does not depend on where a fold happens.
//
// A partial is (m, l, O): m = max score in log2 units, l = sum of 2^(score - m), O = sum of
// 2^(score - m) V. Empty: m = -inf, l = 0. A NaN score makes l NaN and never touches m.
#pragma once

#include <cstdint>

namespace splitwave::cuda {

inline constexpr float k_log2_e = 1.44269504088896340736F;
inline constexpr float k_ln_2 = 0.693147180559945309417F;

__device__ __forceinline__ float minus_infinity() { return __int_as_float(0xFF800000); }
__device__ __forceinline__ float plus_infinity() { return __int_as_float(0x7F800000); }
__device__ __forceinline__ float quiet_nan() { return __int_as_float(0x7FFFFFFF); }

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// What a running sum is multiplied by when its reference moves from m_old to m_new >= m_old.
__device__ __forceinline__ float rescale_factor(float m_old, float m_new) {
  return m_old == minus_infinity() ? 0.0F : exp2_fast(__fsub_rn(m_old, m_new));
}

struct Partial {
  float m;
  float l;
};

__device__ __forceinline__ Partial empty_partial() { return {minus_infinity(), 0.0F}; }
// NaN is not empty: a row of NaN scores has keys.
__device__ __forceinline__ bool is_empty(const Partial& p) { return p.l == 0.0F; }

// How two partials become one. weight 1 and 0 exactly when a side is empty: the other passes
// through bit by bit, so that trailing empty chunks change nothing.
struct Merge {
  Partial merged;
  float weight_a;
  float weight_b;
};

__device__ __forceinline__ Merge merge(const Partial& a, const Partial& b) {
  if (is_empty(b)) return {a, 1.0F, 0.0F};
  if (is_empty(a)) return {b, 0.0F, 1.0F};
  const float m = fmaxf(a.m, b.m);
  const float weight_a = rescale_factor(a.m, m);
  const float weight_b = rescale_factor(b.m, m);
  const float l = __fmaf_rn(weight_a, a.l, __fmul_rn(weight_b, b.l));
  return {{m, l}, weight_a, weight_b};
}

__device__ __forceinline__ float merge_value(float weight_a, float a, float weight_b, float b) {
  if (weight_b == 0.0F) return a;
  if (weight_a == 0.0F) return b;
  return __fmaf_rn(weight_a, a, __fmul_rn(weight_b, b));
}

// 1 / (l + 2^(sink - m)), 0 for an empty row. sink in natural units joins the denominator only;
// -inf: none.
__device__ __forceinline__ float inverse_denominator(const Partial& p, float sink) {
  if (is_empty(p)) return 0.0F;
  const float with_sink = exp2_fast(__fsub_rn(__fmul_rn(sink, k_log2_e), p.m));
  return __fdiv_rn(1.0F, __fadd_rn(p.l, with_sink));
}

// Natural log of the row's sum, without the sink; +inf for an empty row.
__device__ __forceinline__ float natural_lse(const Partial& p) {
  if (is_empty(p)) return plus_infinity();
  return __fmul_rn(__fadd_rn(p.m, log2f(p.l)), k_ln_2);
}

// Two fp32 to a bf16 pair, round to nearest even; `low` in the low half.
__device__ __forceinline__ std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}
__device__ __forceinline__ std::uint32_t pack_f16(float low, float high) {
  std::uint32_t out;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}

}  // namespace splitwave::cuda
