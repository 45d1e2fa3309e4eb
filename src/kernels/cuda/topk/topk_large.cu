// Top-k tiles of k_topk_large.
#include "kernels/cuda/cache/preload.h"
#include "kernels/cuda/topk/select.cuh"

namespace splitwave::cuda {

cudaError_t prepare_topk_large() {
  return preload(
      {reinterpret_cast<const void*>(topk_tile_kernel<k_topk_large.threads, k_topk_large.items>)});
}

cudaError_t launch_topk_large(const TopKParams& params, cudaStream_t stream) {
  return launch_topk_tiles<k_topk_large.threads, k_topk_large.items>(params, stream);
}

}  // namespace splitwave::cuda
