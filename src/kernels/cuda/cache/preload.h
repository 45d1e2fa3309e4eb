// Loads kernels before the run path. Owns preload: with lazy loading a kernel's first launch would
// load its module, which a stream capture does not allow.
#pragma once

#include <cuda_runtime_api.h>

#include <initializer_list>

namespace splitwave::cuda {

[[nodiscard]] inline cudaError_t preload(std::initializer_list<const void*> kernels) {
  for (const void* kernel : kernels) {
    cudaFuncAttributes attributes;
    if (const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
        error != cudaSuccess) {
      return error;
    }
  }
  return cudaSuccess;
}

}  // namespace splitwave::cuda
