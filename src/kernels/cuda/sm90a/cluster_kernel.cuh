// The cluster decode kernel: one item for the CTAs of a cluster. Owns the entry point, the
// initialisation of barriers and the launcher; one .cu a variant expands
// SPLITWAVE_SM90A_CLUSTER_VARIANT.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/sm90a/cluster_math.cuh"
#include "kernels/cuda/sm90a/cluster_producer.cuh"
#include "kernels/cuda/sm90a/cluster_variants.h"

namespace splitwave::cuda::sm90a {

template <class V>
__device__ __forceinline__ void init_cluster_barriers(std::uint32_t smem, int rank) {
  constexpr auto k = V::shape;
  const int warp = uniform(static_cast<int>(threadIdx.x) / 32);
  if (threadIdx.x % 32 == 0) {
    for (int i = warp; i < k.score_stages; i += k_sm90a_threads / 32) {
      ptx::barrier_init(smem + k.score_full + 8 * i, 33);
      ptx::barrier_init(smem + k.score_empty + 8 * i, 1);
    }
    for (int i = warp; i < k.value_blocks; i += k_sm90a_threads / 32) {
      ptx::barrier_init(smem + k.value_full + 8 * i, 33 * k_sm90a_producer_warps);
      ptx::barrier_init(smem + k.value_empty + 8 * i, k_sm90a_math_warps);
    }
    if (warp < k.slots) {
      // An own block's four warps; of another CTA's the local expectation.
      ptx::barrier_init(smem + k.p_full + 8 * warp, warp % k.config.ctas == rank ? 4 : 1);
    }
    if (warp >= 8 && warp < 10) {
      const int i = warp - 8;
      ptx::barrier_init(smem + k.max_full + 8 * i, 1);
      ptx::barrier_init(smem + k.p_free + 8 * i, k_sm90a_math_warps * k.config.ctas);
      ptx::barrier_init(smem + k.info_full + 8 * i, 1);
      ptx::barrier_init(smem + k.info_empty + 8 * i, k_sm90a_math_warps);
      arrive_expecting(smem + k.max_full + 8 * i, k.slots * k.config.block_heads * 4);
    }
  }
  fence_barrier_init();
}

template <class V>
__global__ void __launch_bounds__(k_sm90a_threads, 1)
    cluster_decode_kernel(const __grid_constant__ DecodeParams params) {
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  constexpr auto k = V::shape;
  static_assert(k.bytes <= k_sm90a_shared_bytes_max);
  static_assert(2 * k.config.math_registers + k.config.producer_registers <= 504);
  static_assert(k.value_blocks >= 2);
  const std::uint32_t smem = ptx::shared_address(shared_bytes);
  const int warp = uniform(static_cast<int>(threadIdx.x) / 32);
  const int rank = uniform(cluster_rank());
  init_cluster_barriers<V>(smem, rank);
  cluster_sync_relaxed();
  ptx::wait_for_preceding_kernel();
  ptx::allow_following_kernel();
  if (warp >= k_sm90a_math_warps) {
    shrink_registers<k.config.producer_registers>();
    ClusterProducer<V>{params, smem, warp - k_sm90a_math_warps, rank, 0, 0, 0, 0, 0}.run();
  } else {
    grow_registers<k.config.math_registers>();
    ClusterWarp<V>{params, smem, warp / 4, warp % 4, rank, 0, 0, 0, 0.0F, 0.0F, false, 0, {}}.run();
  }
  cluster_sync();  // no CTA's memory goes while another may still write to it
}

template <class V>
cudaError_t prepare_cluster() {
  const auto kernel = cluster_decode_kernel<V>;
  cudaFuncAttributes attributes{};
  if (const cudaError_t e = cudaFuncGetAttributes(&attributes, kernel); e != cudaSuccess) return e;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, V::shape.bytes);
}

// ctas: clusters.
template <class V>
cudaError_t launch_cluster(const DecodeParams& params, int ctas, bool /*after_schedule*/,
                           cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(ctas * V::shape.config.ctas));
  config.blockDim = dim3(k_sm90a_threads);
  config.dynamicSmemBytes = V::shape.bytes;
  config.stream = stream;
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = V::shape.config.ctas;
  attributes[1].val.clusterDim.y = 1;
  attributes[1].val.clusterDim.z = 1;
  config.attrs = attributes;
  config.numAttrs = 2;
  return cudaLaunchKernelEx(&config, cluster_decode_kernel<V>, params);
}

}  // namespace splitwave::cuda::sm90a

// Defines launcher_<name> from k_<name>.
#define SPLITWAVE_SM90A_CLUSTER_VARIANT(variant)                                         \
  namespace splitwave::cuda {                                                            \
  struct Variant_##variant {                                                             \
    static constexpr Sm90aClusterShape shape = sm90a_cluster_shape(k_##variant);         \
  };                                                                                     \
  extern const VariantLauncher launcher_##variant;                                       \
  const VariantLauncher launcher_##variant = {                                           \
      k_##variant.name, sm90a::prepare_cluster<Variant_##variant>,                       \
      sm90a::launch_cluster<Variant_##variant>,                                          \
      reinterpret_cast<KernelPointer>(sm90a::cluster_decode_kernel<Variant_##variant>)}; \
  }
