// The source's kernel as reference traits: the attention kernel of the target-CTAs experiment, as
// its documents describe it (128 threads, 80 KB of shared memory, one CTA an SM, blocks of 32
// heads). It is not in this build: it exists so that `plan` and `occupancy` can replay that
// experiment, and so that the model can be held against its six published operating points. Called
// by the command line.
#pragma once

#include "plan/calibration.h"
#include "splitwave/plan.h"

namespace splitwave {

inline constexpr const char* k_source_kernel_class = "source";

// Named "source_n32_w4": reference traits, for every GPU whose SM can hold the CTA.
[[nodiscard]] VariantTraits source_kernel_traits(KvFormat format);

// Its cost constants, fitted to the source's own step times; they describe the source's server,
// where the whole decode step was measured, and were not measured here.
[[nodiscard]] CalibrationRecord source_kernel_calibration();

}  // namespace splitwave
