// Highway bodies of peer_simd.h.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/peer_simd.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "bench/peer_simd.h"
#include "kernels/cpu/dequantize_inl.h"
#include "kernels/cpu/softmax_inl.h"

HWY_BEFORE_NAMESPACE();
namespace splitwave::cpu::HWY_NAMESPACE {

void PeerDequantise(KvFormat format, const RowRef* rows, int count, int known, float* out) {
  constexpr int k_ahead = 16;
  const int dims = qk_dims(format);
  const bool is_v4 = format == KvFormat::v4;
  const int code_panels = (is_v4 ? k_v4_nope_dims : k_v32_nope_dims) / k_panel_dims;
  for (int t = 0; t < count; ++t) {
    if (t + k_ahead < known) PrefetchRow(format, rows[t + k_ahead]);
    const RowRef& row = rows[t];
    float* const to = out + std::ptrdiff_t{t} * dims;
    for (int p = 0; p < code_panels; ++p) {
      const std::uint8_t* const codes = row.data + p * k_panel_dims;
      if (is_v4) {
        DequantizeV4(codes, row.scales[p], to + p * k_panel_dims);
        continue;
      }
      float scale = 0;
      const int group = p * k_panel_dims / k_v32_scale_group;
      std::memcpy(&scale, row.data + k_v32_scale_offset_bytes + 4 * group, sizeof scale);
      DequantizeV32(codes, scale, to + p * k_panel_dims);
    }
    const int rope = is_v4 ? k_v4_rope_offset_bytes : k_v32_rope_offset_bytes;
    DequantizeRope(row.data + rope, to + code_panels * k_panel_dims);
  }
}

void PeerSoftmaxRow(float* scores, int count, float scale_log2, float* m, float* l) {
  const DF d;
  const VF scale = hn::Set(d, scale_log2);
  VF largest = hn::Set(d, -std::numeric_limits<float>::infinity());
  int i = 0;
  for (; i + k_lanes <= count; i += k_lanes) {
    largest = hn::Max(largest, hn::Mul(hn::LoadU(d, scores + i), scale));
  }
  float maximum = i > 0 ? hn::GetLane(hn::MaxOfLanes(d, largest)) : scores[0] * scale_log2;
  for (int j = i; j < count; ++j) maximum = std::max(maximum, scores[j] * scale_log2);
  const VF origin = hn::Set(d, maximum);
  VF sum = hn::Zero(d);
  i = 0;
  for (; i + k_lanes <= count; i += k_lanes) {
    const VF p = Exp2(hn::MulSub(hn::LoadU(d, scores + i), scale, origin));
    hn::StoreU(p, d, scores + i);
    sum = hn::Add(sum, p);
  }
  float total = i > 0 ? hn::GetLane(hn::SumOfLanes(d, sum)) : 0.0F;
  for (; i < count; ++i) {
    scores[i] = std::exp2(scores[i] * scale_log2 - maximum);
    total += scores[i];
  }
  *m = maximum;
  *l = total;
}

void PeerScaleToBf16(const float* from, std::int64_t count, float factor, std::uint16_t* to) {
  const DF d;
  const VF by = hn::Set(d, factor);
  for (std::int64_t i = 0; i < count; i += k_lanes) {
    StoreBf16(hn::Mul(hn::LoadU(d, from + i), by), to + i);
  }
}

}  // namespace splitwave::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace splitwave::cpu {
HWY_EXPORT(PeerDequantise);
HWY_EXPORT(PeerSoftmaxRow);
HWY_EXPORT(PeerScaleToBf16);
}  // namespace splitwave::cpu

namespace splitwave::bench {

using namespace cpu;  // HWY_DYNAMIC_DISPATCH names the table unqualified

void dequantise_rows(KvFormat format, const RowRef* rows, int count, int known, float* out) {
  HWY_DYNAMIC_DISPATCH(PeerDequantise)(format, rows, count, known, out);
}

void softmax_row(float* scores, int count, float scale_log2, float* m, float* l) {
  HWY_DYNAMIC_DISPATCH(PeerSoftmaxRow)(scores, count, scale_log2, m, l);
}

void to_bf16(const float* from, std::int64_t count, std::uint16_t* to) {
  HWY_DYNAMIC_DISPATCH(PeerScaleToBf16)(from, count, 1.0F, to);
}

void scale_to_bf16(const float* from, std::int64_t count, float factor, std::uint16_t* to) {
  HWY_DYNAMIC_DISPATCH(PeerScaleToBf16)(from, count, factor, to);
}

}  // namespace splitwave::bench
#endif  // HWY_ONCE
