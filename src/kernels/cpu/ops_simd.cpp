// The operators' inner loops, compiled once for each Highway target (AVX-512, AVX2, NEON and the
// portable emulation), and the list of tables that this processor can run.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/ops_simd.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "kernels/cpu/ops_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace splitwave::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
inline constexpr int k_lanes = HWY_LANES(float);
static_assert(k_ops_head_pad % k_lanes == 0, "a padded head count is whole vectors");

// Codes go to the top of a float's exponent and mantissa: value * 2^-120, subnormals included; one
// exact multiply brings them back. NaN codes are put in by a select.
void DecodeE4m3(const std::uint8_t* HWY_RESTRICT codes, float* HWY_RESTRICT out) {
  const DF d;
  const hn::RebindToUnsigned<DF> du;
  const hn::Rebind<std::uint8_t, DF> du8;
  const auto magnitude_mask = hn::Set(du, 0x7FU);
  for (int i = 0; i < k_indexer_dims; i += k_lanes) {
    const auto code = hn::PromoteTo(du, hn::LoadU(du8, codes + i));
    const auto magnitude = hn::And(code, magnitude_mask);
    const auto sign = hn::ShiftLeft<24>(hn::AndNot(magnitude_mask, code));
    const auto bits = hn::Or(hn::ShiftLeft<20>(magnitude), sign);
    const auto value = hn::Mul(hn::BitCast(d, bits), hn::Set(d, 0x1p120F));
    const auto is_nan = hn::RebindMask(d, hn::Eq(magnitude, magnitude_mask));
    hn::StoreU(hn::IfThenElse(is_nan, hn::NaN(d), value), d, out + i);
  }
}

// kKeys keys against kVectors vectors of heads.
template <int kVectors, int kKeys>
HWY_INLINE void ScoreBlock(const ScoreTask& task, int first) {
  const DF d;
  VF sum[kKeys][kVectors];
#pragma GCC unroll 12
  for (int t = 0; t < kKeys; ++t) {
#pragma GCC unroll 8
    for (int n = 0; n < kVectors; ++n) sum[t][n] = hn::Zero(d);
  }
  const float* HWY_RESTRICT k = task.keys + std::ptrdiff_t{first} * k_indexer_dims;
  for (int i = 0; i < k_indexer_dims; ++i) {
    VF q[kVectors];
#pragma GCC unroll 8
    for (int n = 0; n < kVectors; ++n) {
      q[n] = hn::LoadU(d, task.q + std::ptrdiff_t{i} * task.heads_padded + n * k_lanes);
    }
#pragma GCC unroll 12
    for (int t = 0; t < kKeys; ++t) {
      const VF kv = hn::Set(d, k[t * k_indexer_dims + i]);
#pragma GCC unroll 8
      for (int n = 0; n < kVectors; ++n) sum[t][n] = hn::MulAdd(q[n], kv, sum[t][n]);
    }
  }
#pragma GCC unroll 12
  for (int t = 0; t < kKeys; ++t) {
    VF total = hn::Zero(d);
#pragma GCC unroll 8
    for (int n = 0; n < kVectors; ++n) {
      // NaN < 0 is false: a NaN stays. A pad head is masked out, since 0 * inf would be NaN.
      const VF kept = hn::IfThenZeroElse(hn::Lt(sum[t][n], hn::Zero(d)), sum[t][n]);
      const VF term = hn::Mul(kept, hn::LoadU(d, task.weights + n * k_lanes));
      const int live = task.heads - n * k_lanes;
      if (live >= k_lanes) {
        total = hn::Add(total, term);
      } else if (live > 0) {
        total =
            hn::Add(total, hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(live)), term));
      }
    }
    if (first + t < task.count) {
      const float logit = hn::GetLane(hn::SumOfLanes(d, total));
      task.logits[first + t] = task.scales == nullptr ? logit : logit * task.scales[first + t];
    }
  }
}

// The heads of a row are one block of vectors, so that each key is read once: up to 64 / lanes of
// them. Keys per block: what the registers hold.
template <int kVectors>
void ScoreAll(const ScoreTask& task) {
  constexpr int k_registers = HWY_TARGET == HWY_AVX2 ? 12 : 24;
  constexpr int k_keys = kVectors >= k_registers                 ? 1
                         : k_registers / kVectors > k_score_keys ? k_score_keys
                                                                 : k_registers / kVectors;
  for (int first = 0; first < task.count; first += k_keys)
    ScoreBlock<kVectors, k_keys>(task, first);
}

void Score(const ScoreTask& task) {
  switch (task.heads_padded / 16) {
    case 1:
      return ScoreAll<16 / k_lanes>(task);
    case 2:
      return ScoreAll<32 / k_lanes>(task);
    case 3:
      return ScoreAll<48 / k_lanes>(task);
    default:
      return ScoreAll<64 / k_lanes>(task);
  }
}

// Nearest, ties to even, on the bits: normal codes keep 3 of 23 mantissa bits; subnormal ones are
// counted in steps of 2^-9 by adding 2^14, whose last mantissa bit is worth 2^-9.
void EncodeE4m3(const std::uint16_t* HWY_RESTRICT dims, int count, float scale,
                std::uint8_t* HWY_RESTRICT codes) {
  const DF d;
  const hn::RebindToUnsigned<DF> du;
  const hn::RebindToSigned<DF> di;
  const hn::Rebind<std::uint16_t, DF> du16;
  const hn::Rebind<std::uint8_t, DF> du8;
  const auto scales = hn::Set(d, scale);
  for (int i = 0; i < count; i += k_lanes) {
    const auto raw = hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(du16, dims + i)));
    const auto x = hn::Div(hn::BitCast(d, raw), scales);
    const auto sign = hn::And(hn::ShiftRight<24>(hn::BitCast(du, x)), hn::Set(du, 0x80U));
    const auto magnitude = hn::Min(hn::Abs(x), hn::Set(d, 448.0F));
    const auto bits = hn::BitCast(du, magnitude);
    const auto odd = hn::And(hn::ShiftRight<20>(bits), hn::Set(du, 1U));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFFU)), odd);
    const auto normal = hn::Sub(hn::ShiftRight<20>(rounded), hn::Set(du, 120U << 3));
    const auto shifted = hn::BitCast(du, hn::Add(magnitude, hn::Set(d, 0x1p14F)));
    const auto subnormal = hn::And(shifted, hn::Set(du, 0xFU));
    const auto is_small = hn::RebindMask(du, hn::Lt(magnitude, hn::Set(d, 0x1p-6F)));
    const auto code = hn::Or(hn::IfThenElse(is_small, subnormal, normal), sign);
    hn::StoreU(hn::DemoteTo(du8, hn::BitCast(di, code)), du8, codes + i);
  }
}

std::uint32_t AmaxBits(const std::uint16_t* HWY_RESTRICT dims, int count) {
  std::uint32_t amax = 0;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t magnitude = dims[i] & 0x7FFFU;
    amax = magnitude > amax ? magnitude : amax;
  }
  return amax;
}

std::int64_t NextAtLeast(const float* logits, std::int64_t from, std::int64_t length,
                         float threshold) {
  const DF d;
  const auto limit = hn::Set(d, threshold);
  std::int64_t i = from;
  for (; i + k_lanes <= length; i += k_lanes) {
    const auto hit = hn::Ge(hn::LoadU(d, logits + i), limit);
    if (!hn::AllFalse(d, hit)) return i + hn::FindFirstTrue(d, hit);
  }
  for (; i < length; ++i) {
    if (logits[i] >= threshold) return i;
  }
  return length;
}

// exp_nonpositive of formats/ops_math.h, lane by lane the same operations.
HWY_INLINE VF ExpNonpositive(VF x) {
  const DF d;
  const hn::RebindToUnsigned<DF> du;
  const VF magic = hn::Set(d, 12582912.0F);
  const VF shifted = hn::MulAdd(x, hn::Set(d, 1.44269504F), magic);
  const VF n = hn::Sub(shifted, magic);
  VF r = hn::MulAdd(n, hn::Set(d, -0.693359375F), x);
  r = hn::MulAdd(n, hn::Set(d, 2.12194440e-4F), r);
  VF p = hn::Set(d, 1.9875691500e-4F);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1F));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1F));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0F));
  const auto bits = hn::Add(hn::BitCast(du, p), hn::ShiftLeft<23>(hn::BitCast(du, shifted)));
  const VF value = hn::IfThenElse(hn::Eq(x, x), hn::BitCast(d, bits), x);
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.33654F)), value);
}

// A NaN loses, as in op_max.
HWY_INLINE VF MaxNumber(VF a, VF b) {
  const VF larger = hn::IfThenElse(hn::Lt(a, b), b, a);
  return hn::IfThenElse(hn::Ne(a, a), b, larger);
}

void Pool(const PoolTask& task) {
  const DF d;
  for (int c = 0; c < task.dims; c += k_lanes) {
    VF m = hn::Set(d, -__builtin_inff());
    for (int j = task.first; j < 8; ++j) m = MaxNumber(m, hn::LoadU(d, task.scores[j] + c));
    VF l = hn::Zero(d);
    VF a = hn::Zero(d);
    for (int j = task.first; j < 8; ++j) {
      const VF weight = ExpNonpositive(hn::Sub(hn::LoadU(d, task.scores[j] + c), m));
      l = hn::Add(l, weight);
      a = hn::MulAdd(weight, hn::LoadU(d, task.values[j] + c), a);
    }
    hn::StoreU(hn::Div(a, l), d, task.pooled + c);
  }
}

void Online(const OnlineTask& task) {
  const DF d;
  float* HWY_RESTRICT state = task.state;
  for (int c = 0; c < task.dims; c += k_lanes) {
    const VF score = hn::Add(hn::LoadU(d, task.gate + c), hn::LoadU(d, task.ape + c));
    const VF value = hn::LoadU(d, task.kv + c);
    VF m = score;
    VF l = hn::Set(d, 1.0F);
    VF a = value;
    if (!task.is_first) {
      const VF old_m = hn::LoadU(d, state + c);
      m = MaxNumber(old_m, score);
      const VF keep = ExpNonpositive(hn::Sub(old_m, m));
      const VF weight = ExpNonpositive(hn::Sub(score, m));
      l = hn::MulAdd(hn::LoadU(d, state + task.dims + c), keep, weight);
      a = hn::MulAdd(hn::LoadU(d, state + 2 * task.dims + c), keep, hn::Mul(weight, value));
    }
    hn::StoreU(m, d, state + c);
    hn::StoreU(l, d, state + task.dims + c);
    hn::StoreU(a, d, state + 2 * task.dims + c);
    if (task.is_last) hn::StoreU(hn::Div(a, l), d, task.pooled + c);
  }
}

constexpr const char* IsaName() {
  return HWY_TARGET == HWY_AVX3   ? "avx512"
         : HWY_TARGET == HWY_AVX2 ? "avx2"
         : HWY_TARGET == HWY_NEON ? "neon"
                                  : "portable";
}

extern const OpsKernels k_ops_kernels;
const OpsKernels k_ops_kernels = {
    .isa = IsaName(),
    .is_fused = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON,
    .decode_e4m3 = DecodeE4m3,
    .score = Score,
    .encode_e4m3 = EncodeE4m3,
    .amax_bits = AmaxBits,
    .next_at_least = NextAtLeast,
    .pool = Pool,
    .online = Online,
};

}  // namespace splitwave::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace splitwave::cpu {
namespace {

struct Compiled {
  std::int64_t target;
  const OpsKernels* table;
};

constexpr Compiled k_compiled[] = {
#if HWY_TARGETS & HWY_AVX3
    {HWY_AVX3, &N_AVX3::k_ops_kernels},
#endif
#if HWY_TARGETS & HWY_AVX2
    {HWY_AVX2, &N_AVX2::k_ops_kernels},
#endif
#if HWY_TARGETS & HWY_NEON
    {HWY_NEON, &N_NEON::k_ops_kernels},
#endif
#if HWY_TARGETS & HWY_EMU128
    {HWY_EMU128, &N_EMU128::k_ops_kernels},
#endif
};

}  // namespace

const OpsKernelList& runnable_ops_kernels() {
  static const OpsKernelList list = [] {
    OpsKernelList made;
    const std::int64_t supported = hwy::SupportedTargets() | HWY_STATIC_TARGET;
    for (const Compiled& c : k_compiled) {
      if ((supported & c.target) != 0) made.tables[made.count++] = c.table;
    }
    return made;
  }();
  return list;
}

}  // namespace splitwave::cpu
#endif  // HWY_ONCE
