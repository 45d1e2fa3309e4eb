// Arms that are launch plans of this process's decoder. Owns their decoders, inputs and gates; the
// runner drives it through ArmExecutor. Called by `ab run` and by the stand-alone runner.
#pragma once

#include <memory>

#include "experiment/executor.h"
#include "experiment/run_spec.h"

namespace splitwave::experiment {

// Creates one decoder for each arm and stream, builds the inputs, and finds out how many calls make
// a sample. The arms' plans are the only overrides: SPLITWAVE_PLAN must be unset; SPLITWAVE_BACKEND
// and SPLITWAVE_THREADS count where the plan leaves the choice open.
[[nodiscard]] Expected<std::unique_ptr<ArmExecutor>> make_decode_executor(const RunSpec& run);

}  // namespace splitwave::experiment
