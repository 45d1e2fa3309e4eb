// The fp32 decode kernels, compiled once for each Highway target (AVX-512, AVX2, NEON, and the
// scalar fallback), and the list of tables that this processor can run. Owns no arithmetic of its
// own: that is in the three *_inl.h files.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/decode_simd.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "kernels/cpu/decode_avx512bf16.h"
#include "kernels/cpu/decode_kernels.h"
#include "kernels/cpu/dequantize_inl.h"
#include "kernels/cpu/products_inl.h"
#include "kernels/cpu/softmax_inl.h"

HWY_BEFORE_NAMESPACE();
namespace splitwave::cpu::HWY_NAMESPACE {

void AttendTile(const TileTask& task) {
  StageRows(task);
  Scores(task);
  SoftmaxTile(task);
  Values(task);
}

void StageTile(const TileTask& task) { StageRows(task); }
void DequantizeTilePanel(const TileTask& task, int panel, float* to) {
  DequantizePanel(task, panel, to);
}
void SoftmaxOfTile(const TileTask& task) { SoftmaxTile(task); }
void PrefetchPart(const TileTask& task, int share, int shares) {
  PrefetchShare(task, share, shares);
}

// As many chains as the products' accumulators: enough to hide the latency of two units.
double MultiplyAddLoop(std::int64_t iterations) {
  const DF d;
  VF sum[k_accumulators_max];
#pragma GCC unroll 24
  for (int n = 0; n < k_accumulators_max; ++n) sum[n] = hn::Set(d, 0.5F + 0.01F * n);
  const VF factor = hn::Set(d, 0.999F);
  const VF addend = hn::Set(d, 0.001F);
  for (std::int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 24
    for (int n = 0; n < k_accumulators_max; ++n) sum[n] = hn::MulAdd(sum[n], factor, addend);
  }
  VF total = hn::Zero(d);
#pragma GCC unroll 24
  for (int n = 0; n < k_accumulators_max; ++n) total = hn::Add(total, sum[n]);
  // The loop must not be optimised away: its result decides something that cannot happen.
  HWY_ALIGN float lanes[k_lanes];
  hn::Store(total, d, lanes);
  const double flops = 2.0 * k_lanes * k_accumulators_max * static_cast<double>(iterations);
  return lanes[0] < 0.0F ? 0.0 : flops;
}

constexpr const char* IsaName() {
  return HWY_TARGET == HWY_AVX3   ? "avx512"
         : HWY_TARGET == HWY_AVX2 ? "avx2"
         : HWY_TARGET == HWY_NEON ? "neon"
                                  : "scalar";
}

// Every target with a fused multiply-add runs the same operations on each element.
constexpr const char* ArithmeticName() {
  return HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON ? "f32_fma"
                                                                                    : "f32_mul_add";
}

extern const DecodeKernels k_kernels;
const DecodeKernels k_kernels = {
    .isa = IsaName(),
    .arithmetic = ArithmeticName(),
    .pack_q = PackQ,
    .attend_tile = AttendTile,
    .merge = Merge,
    .finish = Finish,
    .multiply_add_loop = MultiplyAddLoop,
    .stage_rows = StageTile,
    .dequantize_panel = DequantizeTilePanel,
    .softmax_tile = SoftmaxOfTile,
    .prefetch_share = PrefetchPart,
};

}  // namespace splitwave::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace splitwave::cpu {
namespace {

struct Compiled {
  std::int64_t target;
  const DecodeKernels* table;
};

// vdpbf16ps is no Highway target; its table builds on the AVX-512 one. Null where not compiled in.
const DecodeKernels* bf16_table() {
#if HWY_TARGETS & HWY_AVX3
  return avx512bf16_kernels(N_AVX3::k_kernels);
#else
  return nullptr;
#endif
}

// Fastest first. The static target is what the compiler's flags guarantee, so it always runs.
constexpr Compiled k_compiled[] = {
#if HWY_TARGETS & HWY_AVX3
    {HWY_AVX3, &N_AVX3::k_kernels},
#endif
#if HWY_TARGETS & HWY_AVX2
    {HWY_AVX2, &N_AVX2::k_kernels},
#endif
#if HWY_TARGETS & HWY_NEON
    {HWY_NEON, &N_NEON::k_kernels},
#endif
#if HWY_TARGETS & HWY_SCALAR
    {HWY_SCALAR, &N_SCALAR::k_kernels},
#endif
};

}  // namespace

// Fastest first: an order, never a timing, because it decides the numerics class. On the one
// processor with vdpbf16ps that was measured (Emerald Rapids: docs/kernels/cpu.md)
// the instruction does 0.64 times the multiply-adds a second of two fp32 units, so the bf16 table
// stands behind the AVX-512 one and runs where `variant` names it.
const KernelListings& all_kernels() {
  static const KernelListings listings = [] {
    KernelListings made;
    const std::int64_t supported = hwy::SupportedTargets() | HWY_STATIC_TARGET;
    for (const Compiled& c : k_compiled) {
      made.items[made.count++] = {c.table->isa, c.table->arithmetic, (supported & c.target) != 0};
      const DecodeKernels* bf16 = c.target == HWY_AVX3 ? bf16_table() : nullptr;
      if (bf16 != nullptr) {
        made.items[made.count++] = {bf16->isa, bf16->arithmetic, has_avx512bf16()};
      }
    }
    return made;
  }();
  return listings;
}

const KernelList& runnable_kernels() {
  static const KernelList list = [] {
    KernelList made;
    const std::int64_t supported = hwy::SupportedTargets() | HWY_STATIC_TARGET;
    for (const Compiled& c : k_compiled) {
      if ((supported & c.target) == 0) continue;
      made.tables[made.count++] = c.table;
      const DecodeKernels* bf16 = c.target == HWY_AVX3 ? bf16_table() : nullptr;
      if (bf16 != nullptr && has_avx512bf16()) made.tables[made.count++] = bf16;
    }
    return made;
  }();
  return list;
}

}  // namespace splitwave::cpu
#endif  // HWY_ONCE
