// The combine step: folds a row's stored partials in chunk order. Owns its launch. Called by
// src/runtime/cuda_backend.cpp after a decode launch that stores partials, and by no other.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/common/params.h"

namespace splitwave::cuda {

// after_decode: the decode kernel precedes it in the stream and may be overlapped with its start.
cudaError_t launch_combine(const DecodeParams& params, bool after_decode, cudaStream_t stream);
cudaError_t prepare_combine();

}  // namespace splitwave::cuda
