// The build without the CUDA backend: the suite on CUDA is an environment error.
#include "runtime/suite_executors.h"

namespace splitwave {

Expected<std::unique_ptr<SuiteExecutor>> make_cuda_suite_executor(int) {
  return environment_error(
      "this build has no CUDA backend; build with nvcc, or verify --backend cpu");
}
SuiteTraits cuda_suite_traits() { return {.backend = "cuda"}; }

}  // namespace splitwave
