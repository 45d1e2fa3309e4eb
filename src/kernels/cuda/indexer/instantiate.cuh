// One pair of key and query types as host functions: which kernel serves a head count and a page
// size, its preparation and its launch. Included by one .cu a pair.
#pragma once

#include "kernels/cuda/indexer/launch.h"
#include "kernels/cuda/indexer/logits.cuh"

namespace splitwave::cuda {

template <class Shape>
cudaError_t prepare_logits_kernel() {
  return cudaFuncSetAttribute(indexer_logits_kernel<Shape>,
                              cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::shared_bytes);
}
template <class Shape>
cudaError_t launch_logits_kernel(const LogitsParams& params, int ctas, cudaStream_t stream) {
  indexer_logits_kernel<Shape><<<ctas, k_logit_threads, Shape::shared_bytes, stream>>>(params);
  return cudaGetLastError();
}

template <IndexerFormat kKeys, IndexerQuery kQuery, int kHeadTiles, bool kAligned>
LogitsLauncher logits_launcher() {
  using Shape = LogitsShape<kKeys, kQuery, kHeadTiles, kAligned>;
  return {kHeadTiles,
          kAligned ? k_logit_tile_keys : 1,
          k_logit_threads,
          Shape::shared_bytes,
          prepare_logits_kernel<Shape>,
          launch_logits_kernel<Shape>,
          reinterpret_cast<const void*>(indexer_logits_kernel<Shape>)};
}

template <IndexerFormat kKeys, IndexerQuery kQuery>
const LogitsLaunchers& logits_launchers() {
  static const LogitsLaunchers launchers = {
      logits_launcher<kKeys, kQuery, 1, true>(), logits_launcher<kKeys, kQuery, 1, false>(),
      logits_launcher<kKeys, kQuery, 4, true>(), logits_launcher<kKeys, kQuery, 4, false>(),
      logits_launcher<kKeys, kQuery, 8, true>(), logits_launcher<kKeys, kQuery, 8, false>()};
  return launchers;
}

}  // namespace splitwave::cuda
