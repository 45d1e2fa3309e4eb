// How the runtime starts a variant. Owns the table from a variant's name to its host functions;
// exists only in builds with CUDA. Each variant's .cu defines one VariantLauncher; the build lists
// those that it compiled (SPLITWAVE_CUDA_ARCHS may leave some out). Called by
// src/runtime/cuda_backend.cpp.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>
#include <vector>

#include "kernels/cuda/common/params.h"

namespace splitwave::cuda {

// Any __global__ function, so that its attributes can be asked for.
using KernelPointer = const void*;

struct VariantLauncher {
  const char* name = nullptr;
  // Loads the kernel and raises its shared-memory limit. Not on the run path.
  cudaError_t (*prepare)() = nullptr;
  // Starts `ctas` CTAs. Allocates nothing, synchronises nothing. after_kernel: what
  // precedes it in the stream may be overlapped with its start (programmatic dependent launch).
  cudaError_t (*launch)(const DecodeParams& params, int ctas, bool after_kernel,
                        cudaStream_t stream) = nullptr;
  KernelPointer kernel = nullptr;
  // Folds a row's partials itself when PartialParams::tickets is given: no combine launch.
  bool folds_partials = false;
};

// The variants that this build compiled.
[[nodiscard]] const std::vector<VariantLauncher>& launchers();
// Null when this build did not compile it.
[[nodiscard]] const VariantLauncher* find_launcher(std::string_view name);

}  // namespace splitwave::cuda
