// What a build without CUDA says when asked for it. Compiled instead of cuda_backend.cpp where
// there is no nvcc.
#include "runtime/backend.h"

namespace splitwave {

Expected<std::unique_ptr<DecodeBackend>> make_cuda_backend(const ProblemSpec& /*spec*/,
                                                           const PlanOverrides& /*overrides*/,
                                                           int /*device*/,
                                                           bool /*owns_workspace*/) {
  return environment_error(
      "this build has no CUDA backend; install the CUDA toolkit (nvcc), configure again with "
      "-DSPLITWAVE_CUDA=ON and rebuild, or use the cpu backend");
}

std::vector<VariantListing> cuda_variant_listings() { return {}; }

std::vector<DeviceSpec> cuda_devices() { return {}; }

}  // namespace splitwave
