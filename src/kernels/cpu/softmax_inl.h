// Vector exp2, the online softmax of one tile, the merge and the final normalisation, for the
// Highway target being compiled. Every lane is one head and every loop over KV rows is sequential,
// so a head's bits do not depend on the lanes beside it nor on the vector's width. Included by
// decode_simd.cpp only, once a target.
#if defined(SPLITWAVE_KERNELS_CPU_SOFTMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPLITWAVE_KERNELS_CPU_SOFTMAX_INL_H
#undef SPLITWAVE_KERNELS_CPU_SOFTMAX_INL_H
#else
#define SPLITWAVE_KERNELS_CPU_SOFTMAX_INL_H
#endif

#include <hwy/highway.h>

#include <cmath>
#include <limits>

#include "kernels/cpu/decode_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace splitwave::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
inline constexpr int k_lanes = HWY_LANES(float);
static_assert(k_head_pad % k_lanes == 0, "a padded head block is whole vectors");

// 2^x for any float: NaN gives NaN, x < -126.5 gives 0, x > 127.5 gives +inf.
// x = n + r, |r| <= 1/2; 2^r by 1 + r * (degree 5, Chebyshev nodes, 2^0 exact); the largest
// relative error over all floats in [-126, 0] is asserted in tests/kernels_cpu/softmax_test.cpp.
HWY_INLINE VF Exp2(VF x) {
  const DF d;
  const hn::RebindToUnsigned<DF> du;
  // Adding 1.5 * 2^23 leaves the nearest integer (ties to even) in the low bits: one addition,
  // where a conversion has to repair what does not fit an integer.
  const VF magic = hn::Set(d, 0x1.8p23F);
  const VF bounded = hn::Min(hn::Max(x, hn::Set(d, -127.0F)), hn::Set(d, 128.0F));
  const VF shifted = hn::Add(bounded, magic);
  const VF r = hn::Sub(bounded, hn::Sub(shifted, magic));
  VF p = hn::Set(d, 0x1.44138ap-13F);
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.5f0890p-10F));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.3b2a54p-7F));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.c6af6cp-5F));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.ebfbe0p-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.62e430p-1F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  // The shift drops all of magic's bits. n = -127 makes the scale's bits 0 (flush to zero), n = 128
  // makes them +inf.
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(du, shifted));
  const VF scale = hn::BitCast(d, hn::Add(exponent, hn::Set(du, 127U << 23)));
  // Max and Min drop a NaN operand on x86: restore it.
  return hn::IfThenElse(hn::Eq(x, x), hn::Mul(p, scale), x);
}

// The reference point of the exponentials: a maximum of -inf (every score -inf so far) would give
// -inf - -inf = NaN for keys that weigh nothing.
HWY_INLINE VF FiniteMax(VF m) {
  const DF d;
  const VF lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  return hn::IfThenElse(hn::Eq(m, lowest), hn::Zero(d), m);
}

// kVectors head vectors at once: the running maximum and the running sum are chains of dependent
// operations, and several chains hide each other's latency. The result does not depend on kVectors.
template <int kVectors>
HWY_INLINE void SoftmaxColumns(const TileTask& task, int h0) {
  const DF d;
  const VF scale = hn::Set(d, task.scale_log2);
  const VF lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  VF m[kVectors];
  VF l[kVectors];
  VF origin[kVectors];
#pragma GCC unroll 4
  for (int n = 0; n < kVectors; ++n) {
    m[n] = task.is_first ? lowest : hn::Load(d, task.partial.m + h0 + n * k_lanes);
  }
  const float* in = task.scores + h0;
  for (int t = 0; t < task.row_count; ++t, in += task.heads_padded) {
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; ++n) {
      m[n] = hn::Max(m[n], hn::Mul(hn::Load(d, in + n * k_lanes), scale));
    }
  }
#pragma GCC unroll 4
  for (int n = 0; n < kVectors; ++n) {
    const int h = h0 + n * k_lanes;
    const VF m_old = task.is_first ? lowest : hn::Load(d, task.partial.m + h);
    origin[n] = FiniteMax(m[n]);
    const VF alpha = Exp2(hn::Sub(m_old, origin[n]));
    l[n] = task.is_first ? hn::Zero(d) : hn::Mul(hn::Load(d, task.partial.l + h), alpha);
    hn::Store(alpha, d, task.alpha + h);
    hn::Store(m[n], d, task.partial.m + h);
  }
  float* cell = task.scores + h0;
  for (int t = 0; t < task.row_count; ++t, cell += task.heads_padded) {
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; ++n) {
      float* const at = cell + n * k_lanes;
      const VF p = Exp2(hn::MulSub(hn::Load(d, at), scale, origin[n]));
      hn::Store(p, d, at);
      l[n] = hn::Add(l[n], p);
    }
  }
#pragma GCC unroll 4
  for (int n = 0; n < kVectors; ++n) hn::Store(l[n], d, task.partial.l + h0 + n * k_lanes);
}

// Scores in, probabilities out; updates m and l, leaves in alpha the factor of the old o.
HWY_INLINE void SoftmaxTile(const TileTask& task) {
  constexpr int k_together = HWY_TARGET == HWY_AVX2 ? 2 : 4;  // registers
  int h = 0;
  for (; h + k_together * k_lanes <= task.heads_padded; h += k_together * k_lanes) {
    SoftmaxColumns<k_together>(task, h);
  }
  for (; h < task.heads_padded; h += k_lanes) SoftmaxColumns<1>(task, h);
}

// into := merge(into, from). Both are rescaled to the common maximum; l and o by one multiply and
// one multiply-add, in this operand order.
inline void Merge(int heads, int heads_padded, const Partial& into, const Partial& from) {
  const DF d;
  HWY_ALIGN float factor_into[k_heads_max];
  HWY_ALIGN float factor_from[k_heads_max];
  for (int h = 0; h < heads_padded; h += k_lanes) {
    const VF m_into = hn::Load(d, into.m + h);
    const VF m_from = hn::Load(d, from.m + h);
    const VF m = hn::Max(m_into, m_from);
    const VF origin = FiniteMax(m);
    const VF a = Exp2(hn::Sub(m_into, origin));
    const VF b = Exp2(hn::Sub(m_from, origin));
    const VF l = hn::MulAdd(hn::Load(d, from.l + h), b, hn::Mul(hn::Load(d, into.l + h), a));
    hn::Store(m, d, into.m + h);
    hn::Store(l, d, into.l + h);
    hn::Store(a, d, factor_into + h);
    hn::Store(b, d, factor_from + h);
  }
  for (int p = 0; p < k_value_panels; ++p) {
    for (int h = 0; h < heads; ++h) {
      const VF a = hn::Set(d, factor_into[h]);
      const VF b = hn::Set(d, factor_from[h]);
      float* const o = into.o + (p * heads + h) * k_panel_dims;
      const float* const o_from = from.o + (p * heads + h) * k_panel_dims;
      for (int i = 0; i < k_panel_dims; i += k_lanes) {
        const VF scaled = hn::Mul(hn::Load(d, o + i), a);
        hn::Store(hn::MulAdd(hn::Load(d, o_from + i), b, scaled), d, o + i);
      }
    }
  }
}

// fp32 to bf16, nearest even; NaN becomes the quiet NaN 0x7FC0 whatever its payload.
HWY_INLINE void StoreBf16(VF value, std::uint16_t* to) {
  const hn::RebindToUnsigned<DF> du;
  const hn::RebindToSigned<DF> di;
  const hn::Rebind<std::uint16_t, DF> du16;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFU))));
  const auto is_number = hn::RebindMask(du, hn::Eq(value, value));
  const auto code = hn::IfThenElse(is_number, rounded, hn::Set(du, 0x7FC0U));
  hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di, code)), du16, to);
}

HWY_INLINE void FinishEmpty(const FinishTask& task) {
  for (int h = 0; h < task.heads; ++h) {
    std::uint16_t* const out = task.out + h * task.out_head_stride;
    for (int i = 0; i < k_value_dims; ++i) out[i] = 0;
    if (task.lse != nullptr) task.lse[h] = std::numeric_limits<float>::infinity();
  }
}

// out = o / (l + 2^(sink * log2(e) - m)); lse = (m + log2(l)) * ln(2).
inline void Finish(const FinishTask& task) {
  if (task.is_empty) {
    FinishEmpty(task);
    return;
  }
  constexpr double k_log2_e = 1.44269504088896340736;
  constexpr double k_ln_2 = 0.69314718055994530942;
  const DF d;
  HWY_ALIGN float sink_term[k_heads_max];
  for (int h = 0; h < task.heads_padded; ++h) {
    sink_term[h] = -std::numeric_limits<float>::infinity();
    if (task.sink == nullptr || h >= task.heads) continue;
    sink_term[h] = static_cast<float>(double{task.sink[h]} * k_log2_e);
  }
  for (int h = 0; h < task.heads_padded; h += k_lanes) {
    const VF m = hn::Load(d, task.partial.m + h);
    const VF sink = Exp2(hn::Sub(hn::Load(d, sink_term + h), FiniteMax(m)));
    // m - m is 0, or NaN where every score was -inf: 0 / 0, whatever the sink.
    const VF l = hn::Add(hn::Load(d, task.partial.l + h), hn::Sub(m, m));
    hn::Store(l, d, task.partial.l + h);
    const VF denominator = hn::Add(l, sink);
    hn::Store(hn::Div(hn::Set(d, 1.0F), denominator), d, sink_term + h);
  }
  for (int h = 0; h < task.heads; ++h) {
    const VF inverse = hn::Set(d, sink_term[h]);
    for (int p = 0; p < k_value_panels; ++p) {
      const float* const o = task.partial.o + (p * task.heads + h) * k_panel_dims;
      std::uint16_t* const out = task.out + h * task.out_head_stride + p * k_panel_dims;
      for (int i = 0; i < k_panel_dims; i += k_lanes) {
        StoreBf16(hn::Mul(hn::Load(d, o + i), inverse), out + i);
      }
    }
    if (task.lse == nullptr) continue;
    const double lse_log2 = double{task.partial.m[h]} + std::log2(double{task.partial.l[h]});
    task.lse[h] = static_cast<float>(lse_log2 * k_ln_2);
  }
}

}  // namespace splitwave::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
