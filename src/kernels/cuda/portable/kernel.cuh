// The portable decode kernel: barriers, roles, launcher. Owns the entry point; one .cu per variant
// expands SPLITWAVE_PORTABLE_VARIANT. Grid: any number of CTAs, each takes items blockIdx, blockIdx
// + gridDim, ... so that the ring stays busy from one item to the next.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/common/params.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/portable/config.h"
#include "kernels/cuda/portable/producer.cuh"
#include "kernels/cuda/portable/pv.cuh"
#include "kernels/cuda/portable/qk.cuh"
#include "kernels/cuda/portable/variants.h"

namespace splitwave::cuda::portable {

template <class V>
__device__ __forceinline__ void init_barriers(const Smem<V>& smem) {
  constexpr PortableConfig k = V::shape.config;
  for (int s = 0; s < k.stages; ++s) {
    // Of each producer warp: 32 arrivals on copies and one that publishes the mask.
    ptx::barrier_init(smem.ring_full(s), k.producer_warps * 33);
    ptx::barrier_init(smem.ring_empty(s), k_arrivals_of_warp * k.pv_warps);
  }
  for (int b = 0; b < 2; ++b) {
    ptx::barrier_init(smem.p_full(b), k_arrivals_of_warp * k.qk_warps);
    ptx::barrier_init(smem.p_empty(b), k_arrivals_of_warp * k.pv_warps);
    ptx::barrier_init(smem.stats_full(b), k_arrivals_of_warp);
    ptx::barrier_init(smem.stats_empty(b), k_arrivals_of_warp * k.pv_warps);
    ptx::barrier_init(smem.info_full(b), 1);
    ptx::barrier_init(smem.info_empty(b), k_arrivals_of_warp * V::shape.warps);
  }
}

template <class V>
__global__ void __launch_bounds__(V::shape.threads, V::shape.config.ctas_per_sm)
    decode_kernel(const __grid_constant__ DecodeParams params) {
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  const Smem<V> smem{ptx::shared_address(shared_bytes)};
  // Uniform for the compiler too: the role branches stay convergent.
  const int warp = __shfl_sync(0xFFFFFFFFU, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x == 0) init_barriers(smem);
  __syncthreads();
  ptx::wait_for_preceding_kernel();
  ptx::allow_following_kernel();

  constexpr PortableConfig k = V::shape.config;
  if (warp < k.qk_warps) {
    ScoreWarp<V>(params, smem, warp, lane).run();
  } else if (warp < k.qk_warps + k.pv_warps) {
    ValueWarp<V>(params, smem, warp - k.qk_warps, lane).run();
  } else {
    Producer<V>{params, smem, warp - k.qk_warps - k.pv_warps, lane, {}, {}}.run();
  }
}

template <class V>
cudaError_t prepare() {
  const auto kernel = decode_kernel<V>;
  cudaFuncAttributes attributes{};  // forces the module to be loaded now, not in the first call
  if (const cudaError_t e = cudaFuncGetAttributes(&attributes, kernel); e != cudaSuccess) return e;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              V::shape.smem.bytes);
}

template <class V>
cudaError_t launch(const DecodeParams& params, int ctas, bool after_kernel, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(ctas));
  config.blockDim = dim3(V::shape.threads);
  config.dynamicSmemBytes = V::shape.smem.bytes;
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = after_kernel ? 1 : 0;
  return cudaLaunchKernelEx(&config, decode_kernel<V>, params);
}

}  // namespace splitwave::cuda::portable

// Defines launcher_<name> from k_<name>.
#define SPLITWAVE_PORTABLE_VARIANT(variant)                                                        \
  namespace splitwave::cuda {                                                                      \
  struct Variant_##variant {                                                                       \
    static constexpr PortableShape shape = shape_of(k_##variant);                                  \
  };                                                                                               \
  extern const VariantLauncher launcher_##variant;                                                 \
  const VariantLauncher launcher_##variant = {                                                     \
      k_##variant.name, portable::prepare<Variant_##variant>, portable::launch<Variant_##variant>, \
      reinterpret_cast<KernelPointer>(portable::decode_kernel<Variant_##variant>), true};          \
  }
