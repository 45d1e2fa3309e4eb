// How the runtime starts top-k. Owns TopKParams and the launch of all levels. Exists only in builds
// with CUDA; called by src/runtime/ops_cuda.cpp with checked calls. No memory is cleared: every
// word of the workspace that a level reads, the level before has written in the same call.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/topk/config.h"

namespace splitwave::cuda {

struct TopKParams {
  TopKLevels levels;
  int level = 0;
  int rows = 0;
  const float* logits = nullptr;  // [rows, length_max]
  std::int64_t logits_row_stride = 0;
  const std::int32_t* lengths = nullptr;  // [rows]
  const uint2* input = nullptr;  // (key, index) survivors of the level before, [rows, input_stride]
  std::int64_t input_stride = 0;
  uint2* output = nullptr;  // survivors of this level
  std::int64_t output_stride = 0;
  std::int32_t* indices = nullptr;  // [rows, k] or null
  std::int64_t indices_row_stride = 0;
  std::int32_t* counts = nullptr;  // [rows] or null
  std::int32_t* slots = nullptr;   // [rows, k] or null: translated through kv_pages
  std::int64_t slots_row_stride = 0;
  const std::int32_t* kv_pages = nullptr;
  std::int64_t kv_pages_row_stride = 0;
  int kv_page_size = 1;
  std::int64_t kv_pool_pages = 0;
};

// Bytes for both survivor buffers of rows rows.
[[nodiscard]] std::int64_t topk_workspace_bytes(std::int64_t length_max, int k, int rows);
// Starts every level. params.level, input and output are set here; workspace is 16-byte aligned.
[[nodiscard]] cudaError_t launch_top_k(TopKParams params, std::uint8_t* workspace,
                                       cudaStream_t stream);

// Loads the kernels; once, at creation.
[[nodiscard]] cudaError_t prepare_topk_small();
[[nodiscard]] cudaError_t prepare_topk_large();

// One a .cu.
[[nodiscard]] cudaError_t launch_topk_small(const TopKParams& params, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_topk_large(const TopKParams& params, cudaStream_t stream);

}  // namespace splitwave::cuda
