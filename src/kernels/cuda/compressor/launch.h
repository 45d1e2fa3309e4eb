// How the runtime starts the compressor. Owns its launches; exists only in builds with CUDA. Called
// by src/runtime/ops_cuda.cpp with checked calls. No workspace.
#pragma once

#include <cuda_runtime_api.h>

#include "splitwave/ops.h"

namespace splitwave::cuda {

struct CompressParams {
  CompressCall call;
  CompressorTarget target = CompressorTarget::rows;
  bool hadamard = false;
  float norm_eps = 1e-6F;
};

// Loads the kernels; once, at creation.
[[nodiscard]] cudaError_t prepare_compress_step();
[[nodiscard]] cudaError_t prepare_compress_tokens();

// One token of every sequence: one launch.
[[nodiscard]] cudaError_t launch_compress_step(const CompressorSpec& spec, const CompressCall& call,
                                               cudaStream_t stream);
// Any number of tokens: one launch that emits entries from inputs and old states, one that brings
// the states up to date. The second must not overlap the first: it writes what the first reads.
[[nodiscard]] cudaError_t launch_compress_tokens(const CompressorSpec& spec,
                                                 const CompressCall& call, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_copy_state(const CompressorSpec& spec, const StateCopyCall& call,
                                            cudaStream_t stream);

}  // namespace splitwave::cuda
