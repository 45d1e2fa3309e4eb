// fp8 rows to an fp32 tile for the Highway target being compiled: each KV row once, for all heads of
// the block. Owns the vector e4m3 decoder and the prefetch of rows to come; the exact cases that the
// fast path leaves out (NaN codes, extreme scales, rounding ties) go through src/formats. Included by
// decode_simd.cpp only, once a target.
#if defined(SPLITWAVE_KERNELS_CPU_DEQUANTIZE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPLITWAVE_KERNELS_CPU_DEQUANTIZE_INL_H
#undef SPLITWAVE_KERNELS_CPU_DEQUANTIZE_INL_H
#else
#define SPLITWAVE_KERNELS_CPU_DEQUANTIZE_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstring>

#include "formats/bf16.h"
#include "formats/e8m0.h"
#include "formats/fp8.h"
#include "kernels/cpu/decode_kernels.h"
#include "kernels/cpu/softmax_inl.h"

HWY_BEFORE_NAMESPACE();
namespace splitwave::cpu::HWY_NAMESPACE {

inline constexpr int k_cache_line_bytes = 64;

HWY_INLINE void PrefetchRow(KvFormat format, const RowRef& row) {
  const int bytes = format == KvFormat::v4 ? k_v4_data_bytes : k_v32_row_bytes;
  for (int at = 0; at < bytes; at += k_cache_line_bytes) hwy::Prefetch(row.data + at);
  hwy::Prefetch(row.data + bytes - 1);  // the row need not start on a line
  if (format == KvFormat::v4) hwy::Prefetch(row.scales);
}

// 2 * k_lanes codes to floats times 2^-8. An e4m3 code's magnitude bits, moved to the top of an f16's
// exponent and mantissa, read as the value times 2^-8 (bias 15 against 7), subnormals included;
// sign-extension and a shift by 7 put the sign into bits 15 and 14, and bit 14 is cleared. NaN codes
// come out finite: the caller has excluded them.
HWY_INLINE void DecodeCodes(const std::uint8_t* codes, VF& low, VF& high) {
  const DF d;
#if HWY_TARGET == HWY_SCALAR
  low = hn::Set(d, decode_e4m3(codes[0]) * 0x1p-8F);
  high = hn::Set(d, decode_e4m3(codes[1]) * 0x1p-8F);
#else
  const hn::Repartition<std::int16_t, DF> d16;
  const hn::Rebind<std::int8_t, decltype(d16)> d8;
  const hn::Rebind<hwy::float16_t, DF> df16;
  const hn::Rebind<std::int16_t, DF> d16_half;
  const auto wide = hn::PromoteTo(d16, hn::LoadU(d8, reinterpret_cast<const std::int8_t*>(codes)));
  const auto half = hn::And(hn::ShiftLeft<7>(wide), hn::Set(d16, static_cast<std::int16_t>(0xBFFF)));
  low = hn::PromoteTo(d, hn::BitCast(df16, hn::LowerHalf(d16_half, half)));
  high = hn::PromoteTo(d, hn::BitCast(df16, hn::UpperHalf(d16_half, half)));
#endif
}

// Whether any of count codes (a multiple of 64) is a NaN.
HWY_INLINE bool HasNanCode(const std::uint8_t* codes, int count) {
  const hn::ScalableTag<std::uint8_t> d8;
  const auto magnitude = hn::Set(d8, std::uint8_t{0x7F});
  auto found = hn::Zero(d8);
  for (int at = 0; at < count; at += static_cast<int>(hn::Lanes(d8))) {
    const auto code = hn::And(hn::LoadU(d8, codes + at), magnitude);
    found = hn::Max(found, code);
  }
  return !hn::AllFalse(d8, hn::Eq(found, magnitude));
}

// 64 bf16 to a panel row.
HWY_INLINE void StoreRope(const std::uint8_t* from, float* to) {
  const DF d;
  const hn::RebindToUnsigned<DF> du;
  const hn::Rebind<std::uint16_t, DF> du16;
  for (int i = 0; i < k_rope_dims; i += k_lanes) {
    const auto code = hn::LoadU(du16, reinterpret_cast<const std::uint16_t*>(from + 2 * i));
    hn::Store(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, code))), d, to + i);
  }
}

// Whether a V4 row's seven scales all allow scale * 2^8 as a normal float: e <= 246 (0xFF, NaN, does
// not). Byte-wise: e >= 247 iff bit 7 is set and the rest is >= 0x77. The pad byte is masked out.
HWY_INLINE bool HasPlainScales(const std::uint8_t* scales) {
  std::uint64_t packed = 0;
  std::memcpy(&packed, scales, k_v4_scales);
  constexpr std::uint64_t k_low = 0x7F7F7F7F7F7F7F7FU;
  constexpr std::uint64_t k_nine = 0x0909090909090909U;
  constexpr std::uint64_t k_top = 0x8080808080808080U;
  return ((((packed & k_low) + k_nine) & packed) & k_top) == 0;
}

HWY_NOINLINE void DequantizeV4Exactly(const RowRef& row, float* tile, int panel_stride) {
  for (int i = 0; i < k_v4_nope_dims; ++i) {
    const float scale = decode_e8m0(row.scales[i / k_v4_scale_group]);
    tile[(i / k_panel_dims) * panel_stride + i % k_panel_dims] = decode_e4m3(row.data[i]) * scale;
  }
}

HWY_INLINE void DequantizeV4(const RowRef& row, float* tile, int panel_stride) {
  static_assert(k_v4_scale_group == k_panel_dims, "one scale a panel");
  const DF d;
  StoreRope(row.data + k_v4_rope_offset_bytes, tile + k_v4_scales * panel_stride);
  if (HasNanCode(row.data, k_v4_nope_dims) || !HasPlainScales(row.scales)) {
    DequantizeV4Exactly(row, tile, panel_stride);
    return;
  }
  for (int g = 0; g < k_v4_scales; ++g) {
    const std::uint32_t scale_bits = (std::uint32_t{row.scales[g]} + 8U) << 23;
    const VF scale = hn::Set(d, std::bit_cast<float>(scale_bits));
    const std::uint8_t* const codes = row.data + g * k_panel_dims;
    float* const to = tile + g * panel_stride;
    for (int i = 0; i < k_panel_dims; i += 2 * k_lanes) {
      VF low;
      VF high;
      DecodeCodes(codes + i, low, high);
      hn::Store(hn::Mul(low, scale), d, to + i);
      hn::Store(hn::Mul(high, scale), d, to + i + k_lanes);
    }
  }
}

// One rounding of code * scale to bf16: the product of 4 and 24 significant bits is exact in double.
HWY_INLINE float RoundedProduct(std::uint8_t code, float scale) {
  return bf16_to_float(double_to_bf16(double{decode_e4m3(code)} * double{scale}));
}

// product is already rounded to fp32; rounding it again to bf16 is the one rounding that the contract
// asks for unless it lies on a bf16 tie, where the bits that fp32 dropped decide.
HWY_INLINE void StoreV32(VF product, const std::uint8_t* codes, float scale, float* to) {
  const DF d;
  const hn::RebindToUnsigned<DF> du;
  const auto bits = hn::BitCast(du, product);
  const auto dropped = hn::And(bits, hn::Set(du, 0xFFFFU));
  if (!hn::AllFalse(du, hn::Eq(dropped, hn::Set(du, 0x8000U)))) {
    for (int i = 0; i < k_lanes; ++i) to[i] = RoundedProduct(codes[i], scale);
    return;
  }
  // No tie here: half up is nearest.
  const auto rounded = hn::Add(bits, hn::Set(du, 0x8000U));
  hn::Store(hn::BitCast(d, hn::And(rounded, hn::Set(du, 0xFFFF0000U))), d, to);
}

// Scales outside this range would overflow scale * 2^8 or make subnormal products.
HWY_INLINE bool IsPlainScale(float scale) {
  const float magnitude = std::fabs(scale);
  return magnitude == 0.0F || (magnitude >= 0x1p-90F && magnitude < 0x1p100F);
}

HWY_INLINE void DequantizeV32(const RowRef& row, float* tile, int panel_stride) {
  const DF d;
  const int rope_panel = k_v32_nope_dims / k_panel_dims;
  StoreRope(row.data + k_v32_rope_offset_bytes, tile + rope_panel * panel_stride);
  const bool has_nan = HasNanCode(row.data, k_v32_nope_dims);
  for (int p = 0; p < rope_panel; ++p) {
    float scale = 0;
    const int group = p * k_panel_dims / k_v32_scale_group;
    std::memcpy(&scale, row.data + k_v32_scale_offset_bytes + 4 * group, sizeof scale);
    const std::uint8_t* const codes = row.data + p * k_panel_dims;
    float* const to = tile + p * panel_stride;
    if (has_nan || !IsPlainScale(scale)) {
      for (int i = 0; i < k_panel_dims; ++i) to[i] = RoundedProduct(codes[i], scale);
      continue;
    }
    const VF factor = hn::Set(d, scale * 256.0F);
    for (int i = 0; i < k_panel_dims; i += 2 * k_lanes) {
      VF low;
      VF high;
      DecodeCodes(codes + i, low, high);
      StoreV32(hn::Mul(low, factor), codes + i, scale, to + i);
      StoreV32(hn::Mul(high, factor), codes + i + k_lanes, scale, to + i + k_lanes);
    }
  }
}

HWY_INLINE void LoadTile(const TileTask& task) {
  const int panel_stride = task.tile_rows_capacity * k_panel_dims;
  for (int t = 0; t < task.row_count; ++t) {
    const int ahead = t + task.prefetch;
    if (task.prefetch > 0 && ahead < task.rows_known) PrefetchRow(task.format, task.rows[ahead]);
    float* const to = task.tile + t * k_panel_dims;
    if (task.format == KvFormat::v4) {
      DequantizeV4(task.rows[t], to, panel_stride);
    } else {
      DequantizeV32(task.rows[t], to, panel_stride);
    }
  }
}

}  // namespace splitwave::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
