// gemm_rows, compiled once for each Highway target. A tile of 4 rows x 4 outputs holds one
// accumulator vector for each output: 16 multiply-adds for 8 loads; a tile at the edge is smaller
// but sums in the same order.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm_simd.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "base/check.h"
#include "kernels/cpu/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace splitwave::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
inline constexpr int k_gemm_lanes = HWY_LANES(float);
static_assert(k_gemm_inputs_multiple % k_gemm_lanes == 0, "an inner length is whole vectors");

template <int kRows, int kOutputs>
HWY_INLINE void GemmTile(const GemmTask& task, int row, int output) {
  const DF d;
  VF sum[kRows][kOutputs];
#pragma GCC unroll 4
  for (int t = 0; t < kRows; ++t) {
#pragma GCC unroll 4
    for (int n = 0; n < kOutputs; ++n) sum[t][n] = hn::Zero(d);
  }
  const float* HWY_RESTRICT x = task.x + row * task.x_stride;
  const float* HWY_RESTRICT w = task.w + std::int64_t{output} * task.inputs;
  for (int i = 0; i < task.inputs; i += k_gemm_lanes) {
    VF weight[kOutputs];
#pragma GCC unroll 4
    for (int n = 0; n < kOutputs; ++n)
      weight[n] = hn::LoadU(d, w + std::int64_t{n} * task.inputs + i);
#pragma GCC unroll 4
    for (int t = 0; t < kRows; ++t) {
      const VF value = hn::LoadU(d, x + t * task.x_stride + i);
#pragma GCC unroll 4
      for (int n = 0; n < kOutputs; ++n) sum[t][n] = hn::MulAdd(value, weight[n], sum[t][n]);
    }
  }
#pragma GCC unroll 4
  for (int t = 0; t < kRows; ++t) {
#pragma GCC unroll 4
    for (int n = 0; n < kOutputs; ++n) {
      task.y[(row + t) * task.y_stride + output + n] = hn::GetLane(hn::SumOfLanes(d, sum[t][n]));
    }
  }
}

template <int kOutputs>
HWY_INLINE void GemmColumn(const GemmTask& task, int output) {
  int row = 0;
  for (; row + 4 <= task.rows; row += 4) GemmTile<4, kOutputs>(task, row, output);
  for (; row < task.rows; ++row) GemmTile<1, kOutputs>(task, row, output);
}

void GemmRows(const GemmTask& task) {
  int output = 0;
  for (; output + 4 <= task.outputs; output += 4) GemmColumn<4>(task, output);
  for (; output < task.outputs; ++output) GemmColumn<1>(task, output);
}

}  // namespace splitwave::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace splitwave::cpu {

HWY_EXPORT(GemmRows);

void gemm_rows(const GemmTask& task) {
  SPLITWAVE_CHECK(task.inputs % k_gemm_inputs_multiple == 0, "inputs are whole vectors");
  HWY_DYNAMIC_DISPATCH(GemmRows)(task);
}

}  // namespace splitwave::cpu
#endif  // HWY_ONCE
