// Logits kernels for Hopper: fp8 keys and query, 32 and 64 heads, pages of a multiple of 64 keys.
#include "kernels/cuda/indexer/launch.h"
#include "kernels/cuda/indexer/logits_wgmma.cuh"

namespace splitwave::cuda {
namespace {

template <int kHeadTiles>
cudaError_t prepare() {
  return cudaFuncSetAttribute(indexer_logits_wgmma_kernel<kHeadTiles>,
                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                              k_wgmma_shared_bytes<kHeadTiles>);
}
template <int kHeadTiles>
cudaError_t launch(const LogitsParams& params, int ctas, cudaStream_t stream) {
  indexer_logits_wgmma_kernel<kHeadTiles>
      <<<ctas, k_groups * k_group_threads, k_wgmma_shared_bytes<kHeadTiles>, stream>>>(params);
  return cudaGetLastError();
}
template <int kHeadTiles>
LogitsLauncher launcher() {
  return {kHeadTiles,
          k_group_tile_keys,
          k_groups * k_group_threads,
          k_wgmma_shared_bytes<kHeadTiles>,
          prepare<kHeadTiles>,
          launch<kHeadTiles>,
          reinterpret_cast<const void*>(indexer_logits_wgmma_kernel<kHeadTiles>)};
}

}  // namespace

const std::array<LogitsLauncher, 2>& logits_fp8_wgmma_launchers() {
  static const std::array<LogitsLauncher, 2> launchers = {launcher<4>(), launcher<8>()};
  return launchers;
}

}  // namespace splitwave::cuda
