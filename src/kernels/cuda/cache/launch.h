// How the runtime starts the cache writes. Owns their launches; exists only in builds with CUDA.
// Called by src/runtime/ops_cuda.cpp with checked calls. No workspace.
#pragma once

#include <cuda_runtime_api.h>

#include "splitwave/ops.h"

namespace splitwave::cuda {

// Loads the kernels; once, at creation.
[[nodiscard]] cudaError_t prepare_write_kv();
[[nodiscard]] cudaError_t prepare_write_indexer();

[[nodiscard]] cudaError_t launch_write_kv(const KvWriteCall& call, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_write_indexer_keys(const IndexerKeyWriteCall& call,
                                                    cudaStream_t stream);
[[nodiscard]] cudaError_t launch_prepare_queries(const IndexerQueryCall& call, cudaStream_t stream);

}  // namespace splitwave::cuda
