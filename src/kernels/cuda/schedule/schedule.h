// The length-aware schedule. Owns the launch of the kernel that cuts and orders the items of a
// ragged batch on the device: no host synchronisation, nothing cached between calls. The list that
// it writes lives in the call's workspace. Called by src/runtime/cuda_backend.cpp before a decode
// launch whose rows have more than one declared chunk and bring lengths.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/common/params.h"

namespace splitwave::cuda {

// Writes params.map.list (at most items_max), params.map.list_count and params.row_partials. slots:
// CTAs that run at once.
cudaError_t launch_schedule(const DecodeParams& params, int slots, bool after_kernel,
                            cudaStream_t stream);
cudaError_t prepare_schedule();

}  // namespace splitwave::cuda
