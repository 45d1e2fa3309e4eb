// In builds without CUDA: the refusal in place of decode_device_cuda.cpp.
#include "experiment/decode_device.h"

namespace splitwave::experiment {

Expected<std::unique_ptr<DecodeDevice>> make_cuda_device(Execution, int) {
  return environment_error("this build has no CUDA: configure it where nvcc is");
}

}  // namespace splitwave::experiment
