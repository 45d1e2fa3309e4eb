// The run: configurations read back, gates, interleaved rounds, everything into a RunRecord. Owns
// the order of these steps and what ends a run. Standard library and the layers below only, so that
// it builds on a bare GPU machine. Called by `ab run` and by the stand-alone runner.
#pragma once

#include <atomic>
#include <string>

#include "experiment/executor.h"
#include "experiment/run_record.h"
#include "experiment/run_spec.h"
#include "splitwave/status.h"

namespace splitwave::experiment {

struct RunnerOptions {
  const std::atomic<bool>* interrupted =
      nullptr;                  // set by a signal handler: stop at the next sample
  bool shows_progress = false;  // on stderr, when that is a terminal
};

// A refusal before anything was measured is an Error: an override that did not take effect, an arm
// that does what the incumbent does at every point. From the gates on everything lands in the
// record, also an interruption or a failing backend: complete rounds stay, a partial one leaves
// nothing.
[[nodiscard]] Expected<RunRecord> run_experiment(const RunSpec& run, ArmExecutor& executor,
                                                 const RunnerOptions& options);

// What --dry-run says: the effective launches, the first rounds, what all of it costs and when it
// would end if it started now. Measures nothing but the cost of one sample a point.
[[nodiscard]] Expected<std::string> describe_run(const RunSpec& run, ArmExecutor& executor);

// Seconds that gates and rounds are expected to take.
struct RunCost {
  double gates_s = 0;
  double rounds_s = 0;
};
[[nodiscard]] RunCost estimate_cost(const RunSpec& run, const ArmExecutor& executor);

}  // namespace splitwave::experiment
