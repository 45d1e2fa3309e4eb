// fp8 rows to an fp32 tile for the Highway target being compiled: each KV row once, for all heads
// of the block. Owns the vector e4m3 decoder and the prefetch of rows to come; the exact cases that
// the fast path leaves out (NaN codes, extreme scales, rounding ties) go through src/formats.
// Included by decode_simd.cpp only, once a target.
#if defined(SPLITWAVE_KERNELS_CPU_DEQUANTIZE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPLITWAVE_KERNELS_CPU_DEQUANTIZE_INL_H
#undef SPLITWAVE_KERNELS_CPU_DEQUANTIZE_INL_H
#else
#define SPLITWAVE_KERNELS_CPU_DEQUANTIZE_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
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

HWY_INLINE void PrefetchToL2(const void* at) { __builtin_prefetch(at, 0, 2); }

// The part of a row that is prefetched; V4 scales lie elsewhere.
HWY_INLINE int PrefetchBytes(KvFormat format) {
  return format == KvFormat::v4 ? k_v4_data_bytes : k_v32_row_bytes;
}
// One prefetch a step of a loop: where the next one goes and how far apart they are.
struct PrefetchSteps {
  const std::uint8_t* at = nullptr;
  std::ptrdiff_t step_bytes = 0;
};

// Bytes between two of so many prefetches that cover a row, its last line included.
HWY_INLINE int PrefetchStepBytes(KvFormat format, int steps) {
  const int lines_and_rest = PrefetchBytes(format) + k_cache_line_bytes - 1;
  return std::min((lines_and_rest + steps - 1) / steps, k_cache_line_bytes);
}

// A whole row into L2, where it waits for its tile: in L1 it would displace the products' operands.
HWY_INLINE void PrefetchRow(KvFormat format, const RowRef& row) {
  const int bytes = PrefetchBytes(format);
  for (int at = 0; at < bytes; at += k_cache_line_bytes) PrefetchToL2(row.data + at);
  PrefetchToL2(row.data + bytes - 1);  // a row need not start on a line
  if (format == KvFormat::v4) PrefetchToL2(row.scales);
}

// The first tile of a chunk has no tile before it: its rows are requested at once.
HWY_INLINE void PrefetchFirstRows(const TileTask& task) {
  const int count = std::min(task.prefetch, task.row_count);
  for (int t = 0; t < count; ++t) PrefetchRow(task.format, task.rows[t]);
}

// Hands out the rows after the tile for prefetching, evenly over the blocks of the products. A
// block prefetches one row, a line every rows_a_step rows of the tile.
class RowPrefetcher {
 public:
  RowPrefetcher(const TileTask& task, int blocks, int rows_a_step)
      : task_(task),
        count_(std::min(task.prefetch, task.rows_known - task.row_count)),
        blocks_(blocks),
        step_bytes_(PrefetchStepBytes(task.format, std::max(1, task.row_count / rows_a_step))) {}
  // What to prefetch during the next block. Where more than one row is due, the others are
  // prefetched here, in a burst; where none is, the steps stay on one line that is always there.
  HWY_INLINE PrefetchSteps next_block() {
    ++block_;
    const int due = static_cast<int>(std::int64_t{count_} * std::min(block_, blocks_) / blocks_);
    for (; done_ + 1 < due; ++done_) PrefetchRow(task_.format, task_.rows[task_.row_count + done_]);
    if (done_ >= due) return {task_.raw, 0};
    const RowRef& row = task_.rows[task_.row_count + done_];
    ++done_;
    if (task_.format == KvFormat::v4) PrefetchToL2(row.scales);
    return {row.data, step_bytes_};
  }

 private:
  const TileTask& task_;
  int count_;
  int blocks_;
  int step_bytes_;
  int block_ = 0;
  int done_ = 0;
};

// 2 * k_lanes codes to floats times 2^-8. An e4m3 code's magnitude bits, moved to the top of an
// f16's exponent and mantissa, read as the value times 2^-8 (bias 15 against 7), subnormals
// included; sign-extension and a shift by 7 put the sign into bits 15 and 14, and bit 14 is
// cleared. NaN codes come out finite: the caller has excluded them.
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
  const auto half =
      hn::And(hn::ShiftLeft<7>(wide), hn::Set(d16, static_cast<std::int16_t>(0xBFFF)));
  low = hn::PromoteTo(d, hn::BitCast(df16, hn::LowerHalf(d16_half, half)));
  high = hn::PromoteTo(d, hn::BitCast(df16, hn::UpperHalf(d16_half, half)));
#endif
}

// Whether any of a panel's codes is a NaN.
HWY_INLINE bool HasNanCode(const std::uint8_t* codes) {
  const hn::ScalableTag<std::uint8_t> d8;
  const auto magnitude = hn::Set(d8, std::uint8_t{0x7F});
  auto largest = hn::Zero(d8);
  for (int at = 0; at < k_panel_dims; at += static_cast<int>(hn::Lanes(d8))) {
    largest = hn::Max(largest, hn::And(hn::LoadU(d8, codes + at), magnitude));
  }
  return !hn::AllFalse(d8, hn::Eq(largest, magnitude));
}

// 64 bf16 to a panel row.
HWY_INLINE void DequantizeRope(const std::uint8_t* from, float* to) {
  const DF d;
  const hn::RebindToUnsigned<DF> du;
  const hn::Rebind<std::uint16_t, DF> du16;
  for (int i = 0; i < k_rope_dims; i += k_lanes) {
    const auto code = hn::LoadU(du16, reinterpret_cast<const std::uint16_t*>(from + 2 * i));
    hn::Store(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, code))), d, to + i);
  }
}

// One V4 group: 64 codes, one scale. Scales above 2^119 would overflow scale * 2^8, and 0xFF is
// NaN: those, and NaN codes, take the exact path.
HWY_INLINE void DequantizeV4(const std::uint8_t* codes, std::uint8_t scale_code, float* to) {
  static_assert(k_v4_scale_group == k_panel_dims, "one scale a panel");
  constexpr int k_scale_code_plain_max = 246;
  if (scale_code > k_scale_code_plain_max || HasNanCode(codes)) {
    const float scale = decode_e8m0(scale_code);
    for (int i = 0; i < k_panel_dims; ++i) to[i] = decode_e4m3(codes[i]) * scale;
    return;
  }
  const DF d;
  const VF scale = hn::Set(d, std::bit_cast<float>((std::uint32_t{scale_code} + 8U) << 23));
  for (int i = 0; i < k_panel_dims; i += 2 * k_lanes) {
    VF low;
    VF high;
    DecodeCodes(codes + i, low, high);
    hn::Store(hn::Mul(low, scale), d, to + i);
    hn::Store(hn::Mul(high, scale), d, to + i + k_lanes);
  }
}

// One rounding of code * scale to bf16: the product of 4 and 24 significant bits is exact in
// double.
HWY_INLINE float RoundedProduct(std::uint8_t code, float scale) {
  return bf16_to_float(double_to_bf16(double{decode_e4m3(code)} * double{scale}));
}

// product is already rounded to fp32; rounding it again to bf16 is the one rounding that the
// contract asks for unless it lies on a bf16 tie, where the bits that fp32 dropped decide.
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

// Half a V3.2 group: 64 codes of one fp32 scale. Scales outside the plain range would overflow
// scale * 2^8 or make subnormal products: the exact path, as for NaN codes.
HWY_INLINE void DequantizeV32(const std::uint8_t* codes, float scale, float* to) {
  const float magnitude = std::fabs(scale);
  const bool is_plain = magnitude == 0.0F || (magnitude >= 0x1p-90F && magnitude < 0x1p100F);
  if (!is_plain || HasNanCode(codes)) {
    for (int i = 0; i < k_panel_dims; ++i) to[i] = RoundedProduct(codes[i], scale);
    return;
  }
  const VF factor = hn::Set(DF(), scale * 256.0F);
  for (int i = 0; i < k_panel_dims; i += 2 * k_lanes) {
    VF low;
    VF high;
    DecodeCodes(codes + i, low, high);
    StoreV32(hn::Mul(low, factor), codes + i, scale, to + i);
    StoreV32(hn::Mul(high, factor), codes + i + k_lanes, scale, to + i + k_lanes);
  }
}

HWY_INLINE void PrefetchShare(const TileTask& task, int share, int shares) {
  const int count = std::min(task.prefetch, task.rows_known - task.row_count);
  for (int i = count * share / shares; i < count * (share + 1) / shares; ++i) {
    PrefetchRow(task.format, task.rows[task.row_count + i]);
  }
}

// The tile's rows, copied next to each other. The panels are decoded one after the other, and each
// visits every row: from the pool that would be a TLB miss a visit, and codes would straddle lines.
HWY_INLINE void StageRows(const TileTask& task) {
  if (task.is_first) PrefetchFirstRows(task);
  const hn::ScalableTag<std::uint8_t> d8;
  const int data_bytes = task.format == KvFormat::v4 ? k_v4_data_bytes : k_v32_row_bytes;
  constexpr int k_step = HWY_LANES(std::uint8_t);
  for (int t = 0; t < task.row_count; ++t) {
    // A distance shorter than the tile: the products before it fetched the first `prefetch` rows
    // only.
    const int ahead = t + task.prefetch;
    if (task.prefetch > 0 && ahead < task.row_count) PrefetchRow(task.format, task.rows[ahead]);
    const RowRef& row = task.rows[t];
    std::uint8_t* const to = task.raw + t * k_raw_row_bytes;
    int at = 0;
    for (; at + k_step <= data_bytes; at += k_step) {
      hn::Store(hn::LoadU(d8, row.data + at), d8, to + at);
    }
    std::memcpy(to + at, row.data + at, static_cast<std::size_t>(data_bytes - at));
    if (task.format == KvFormat::v4) std::memcpy(to + data_bytes, row.scales, k_v4_scale_bytes);
  }
}

// Panel p (dims [64 p, 64 p + 64)) of every staged row.
HWY_INLINE void DequantizePanel(const TileTask& task, int p, float* panel) {
  const bool is_v4 = task.format == KvFormat::v4;
  const int rope_panel = (is_v4 ? k_v4_nope_dims : k_v32_nope_dims) / k_panel_dims;
  const std::uint8_t* row = task.raw;
  const std::uint8_t* const end = row + std::ptrdiff_t{task.row_count} * k_raw_row_bytes;
  float* to = panel;
  if (p == rope_panel) {
    const int offset_bytes = is_v4 ? k_v4_rope_offset_bytes : k_v32_rope_offset_bytes;
    for (; row != end; row += k_raw_row_bytes, to += k_panel_dims) {
      DequantizeRope(row + offset_bytes, to);
    }
  } else if (is_v4) {
    const std::ptrdiff_t codes = p * k_panel_dims;
    const std::ptrdiff_t scale = k_v4_data_bytes + p;
    for (; row != end; row += k_raw_row_bytes, to += k_panel_dims) {
      DequantizeV4(row + codes, row[scale], to);
    }
  } else {
    const int group = p * k_panel_dims / k_v32_scale_group;
    for (; row != end; row += k_raw_row_bytes, to += k_panel_dims) {
      float scale = 0;
      std::memcpy(&scale, row + k_v32_scale_offset_bytes + 4 * group, sizeof scale);
      DequantizeV32(row + p * k_panel_dims, scale, to);
    }
  }
}

}  // namespace splitwave::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
