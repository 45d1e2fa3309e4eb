// The launchers that this build compiled. The .inc file is written by CMake from its variant list.
#include <string_view>

#include "kernels/cuda/launch.h"

namespace splitwave::cuda {

#define SPLITWAVE_CUDA_VARIANT(name) extern const VariantLauncher launcher_##name;
#include "splitwave_cuda_variants.inc"
#undef SPLITWAVE_CUDA_VARIANT

const std::vector<VariantLauncher>& launchers() {
  static const std::vector<VariantLauncher> table = {
#define SPLITWAVE_CUDA_VARIANT(name) launcher_##name,
#include "splitwave_cuda_variants.inc"
#undef SPLITWAVE_CUDA_VARIANT
  };
  return table;
}

const VariantLauncher* find_launcher(std::string_view name) {
  for (const VariantLauncher& launcher : launchers()) {
    if (name == launcher.name) return &launcher;
  }
  return nullptr;
}

}  // namespace splitwave::cuda
