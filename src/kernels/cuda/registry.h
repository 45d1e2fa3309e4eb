// The CUDA variants as data. Owns the list of every compiled kernel configuration and its traits;
// the traits come from the same aggregates that the kernels are instantiated with, so they cannot
// drift. Standard library only: the planner plans for a GPU without nvcc or a driver. Order is
// preference: the first variant that serves a problem gives the default numerics class
// (src/plan/eligible.h).
//
// To add a variant: one aggregate in the family's variants.h, one .cu, one line in CMakeLists.txt.
// To add a family: a folder with config.h and variants.h, its append function below.
#pragma once

#include <vector>

#include "splitwave/plan.h"

namespace splitwave::cuda {

// Every variant of the source tree, experiment arms included, whether this build compiled it or
// not.
[[nodiscard]] std::vector<VariantTraits> all_variants();

}  // namespace splitwave::cuda
