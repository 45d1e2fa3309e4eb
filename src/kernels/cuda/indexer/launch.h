// How the runtime starts a logits kernel. Owns the list of compiled kernels by key type, query
// type, head tiles and page path. Exists only in builds with CUDA; called by
// src/runtime/ops_cuda.cpp.
#pragma once

#include <cuda_runtime_api.h>

#include <array>

#include "kernels/cuda/indexer/config.h"
#include "kernels/cuda/indexer/params.h"

namespace splitwave::cuda {

struct LogitsLauncher {
  int head_tiles = 0;     // of 8 heads each
  int page_multiple = 1;  // page sizes that it takes: multiples of this
  int threads = 0;
  int shared_bytes = 0;
  cudaError_t (*prepare)() = nullptr;  // raises the shared-memory limit; not on the run path
  cudaError_t (*launch)(const LogitsParams& params, int ctas, cudaStream_t stream) = nullptr;
  const void* kernel = nullptr;
};
using LogitsLaunchers = std::array<LogitsLauncher, 6>;

// Head tiles 1, 4, 8, each page-aligned and not.
[[nodiscard]] const LogitsLaunchers& logits_launchers(IndexerFormat keys, IndexerQuery query);
// The preferred kernel for these heads, this page size and this device (compute capability * 10).
[[nodiscard]] const LogitsLauncher& find_logits_launcher(const IndexerSpec& spec, int page_size,
                                                         int arch);

// One a .cu.
[[nodiscard]] const LogitsLaunchers& logits_fp8_launchers();
[[nodiscard]] const LogitsLaunchers& logits_fp8_bf16_query_launchers();
[[nodiscard]] const LogitsLaunchers& logits_fp4_launchers();
[[nodiscard]] const LogitsLaunchers& logits_fp4_bf16_query_launchers();
[[nodiscard]] const LogitsLaunchers& logits_bf16_launchers();
// Hopper: 32 and 64 heads. Only in builds with SPLITWAVE_SM90A_LOGITS.
[[nodiscard]] const std::array<LogitsLauncher, 2>& logits_fp8_wgmma_launchers();

}  // namespace splitwave::cuda
