// Left fold of a row's partials in chunk order, with the functions that the decode kernels fold
// with. A (row, head) has 128 threads, 4 dims each; partials are requested 8 at a time and folded
// one by one.
#include <cuda_runtime.h>

#include "kernels/cuda/combine/combine.h"
#include "kernels/cuda/common/params.h"
#include "kernels/cuda/common/ptx.cuh"
#include "kernels/cuda/common/softmax.cuh"

namespace splitwave::cuda {
namespace {

constexpr int k_threads = 256;
constexpr int k_threads_per_head = k_value_dims / 4;
constexpr int k_heads_per_cta = k_threads / k_threads_per_head;
constexpr int k_ahead = 8;

struct StoredRun {
  int slot;
  int count;
};

__device__ StoredRun stored_of(const DecodeParams& p, int row, int head_block) {
  if (p.map.kind == ItemMapKind::list) {
    const RowPartials r = p.row_partials[row];
    return {r.slot + head_block * r.stored, r.stored};
  }
  return {(row * p.head_blocks + head_block) * p.map.stored, p.map.stored};
}

__global__ void __launch_bounds__(k_threads)
    combine_kernel(const __grid_constant__ DecodeParams p) {
  ptx::wait_for_preceding_kernel();
  ptx::allow_following_kernel();
  const std::int64_t pair = static_cast<std::int64_t>(blockIdx.x) * k_heads_per_cta +
                            static_cast<int>(threadIdx.x) / k_threads_per_head;
  if (pair >= static_cast<std::int64_t>(p.rows) * p.heads) return;
  const int row = static_cast<int>(pair / p.heads);
  const int head = static_cast<int>(pair % p.heads);
  const int dim = static_cast<int>(threadIdx.x) % k_threads_per_head * 4;
  const int head_block = head / p.block_heads;
  const StoredRun run = stored_of(p, row, head_block);
  if (run.count == 0) return;  // written whole
  const std::int64_t first =
      static_cast<std::int64_t>(run.slot) * p.block_heads + head % p.block_heads;
  const float2* ml = reinterpret_cast<const float2*>(p.partials.ml) + first;
  const float* o = p.partials.o + first * k_value_dims + dim;

  Partial running = empty_partial();
  float sum[4] = {};
  for (int base = 0; base < run.count; base += k_ahead) {
    Partial parts[k_ahead];
    float4 values[k_ahead];
#pragma unroll
    for (int i = 0; i < k_ahead; ++i) {
      parts[i] = empty_partial();
      if (base + i < run.count) {
        const float2 v = ml[static_cast<std::int64_t>(base + i) * p.block_heads];
        parts[i] = {v.x, v.y};
      }
    }
#pragma unroll
    for (int i = 0; i < k_ahead; ++i) {
      values[i] = make_float4(0, 0, 0, 0);
      if (!is_empty(parts[i])) {  // an empty partial's O was never written
        values[i] = *reinterpret_cast<const float4*>(
            o + static_cast<std::int64_t>(base + i) * p.block_heads * k_value_dims);
      }
    }
#pragma unroll
    for (int i = 0; i < k_ahead; ++i) {
      const Merge step = merge(running, parts[i]);
      running = step.merged;
      sum[0] = merge_value(step.weight_a, sum[0], step.weight_b, values[i].x);
      sum[1] = merge_value(step.weight_a, sum[1], step.weight_b, values[i].y);
      sum[2] = merge_value(step.weight_a, sum[2], step.weight_b, values[i].z);
      sum[3] = merge_value(step.weight_a, sum[3], step.weight_b, values[i].w);
    }
  }
  const float sink = p.sink != nullptr ? __ldg(p.sink + head) : minus_infinity();
  const float inverse = inverse_denominator(running, sink);
  uint2 packed;
  packed.x = pack_bf16(__fmul_rn(sum[0], inverse), __fmul_rn(sum[1], inverse));
  packed.y = pack_bf16(__fmul_rn(sum[2], inverse), __fmul_rn(sum[3], inverse));
  *reinterpret_cast<uint2*>(p.out + row * p.out_row_stride + head * p.out_head_stride + dim) =
      packed;
  if (p.lse != nullptr && dim == 0) p.lse[row * p.lse_row_stride + head] = natural_lse(running);
}

}  // namespace

cudaError_t prepare_combine() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, combine_kernel);
}

cudaError_t launch_combine(const DecodeParams& params, bool after_decode, cudaStream_t stream) {
  const std::int64_t pairs = static_cast<std::int64_t>(params.rows) * params.heads;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>((pairs + k_heads_per_cta - 1) / k_heads_per_cta));
  config.blockDim = dim3(k_threads);
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = after_decode ? 1 : 0;
  return cudaLaunchKernelEx(&config, combine_kernel, params);
}

}  // namespace splitwave::cuda
