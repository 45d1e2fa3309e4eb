// The levels of a top-k call, one launch each.
#include "kernels/cuda/topk/launch.h"

#include <algorithm>

namespace splitwave::cuda {
namespace {

// Survivors of even and of odd levels have a buffer each: a level reads one and writes the other.
std::int64_t buffer_entries(const TopKLevels& levels, int parity) {
  std::int64_t most = 0;
  for (int level = parity; level + 1 < levels.count; level += 2) {
    most = std::max(most, topk_survivors(levels, level));
  }
  return (most + 1) / 2 * 2;
}

}  // namespace

std::int64_t topk_workspace_bytes(std::int64_t length_max, int k, int rows) {
  const TopKLevels levels = topk_levels(length_max, k);
  return rows * (buffer_entries(levels, 0) + buffer_entries(levels, 1)) *
         static_cast<std::int64_t>(sizeof(uint2));
}

cudaError_t launch_top_k(TopKParams params, std::uint8_t* workspace, cudaStream_t stream) {
  params.levels = topk_levels(params.levels.length_max, params.levels.k);
  const std::int64_t strides[2] = {buffer_entries(params.levels, 0),
                                   buffer_entries(params.levels, 1)};
  uint2* buffers[2] = {reinterpret_cast<uint2*>(workspace),
                       reinterpret_cast<uint2*>(workspace) + params.rows * strides[0]};
  for (int level = 0; level < params.levels.count; ++level) {
    params.level = level;
    params.input = level == 0 ? nullptr : buffers[(level + 1) % 2];
    params.input_stride = strides[(level + 1) % 2];
    params.output = buffers[level % 2];
    params.output_stride = strides[level % 2];
    const bool is_small = params.levels.tile[level] == k_topk_small.size();
    const cudaError_t error =
        is_small ? launch_topk_small(params, stream) : launch_topk_large(params, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace splitwave::cuda
