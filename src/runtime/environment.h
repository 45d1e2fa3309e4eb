// The five environment variables, read once. Owns their names, values and refusals; nothing else in
// the project reads the environment for its behaviour. Called by Decoder::create and by the command
// line. An unknown SPLITWAVE_ name or value is an error: a typing mistake in a deployment must not
// run the default in silence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "splitwave/decoder.h"
#include "splitwave/plan.h"
#include "splitwave/status.h"

namespace splitwave {

struct Environment {
  Backend backend = Backend::auto_detect;  // SPLITWAVE_BACKEND: auto, cpu, cuda
  PlanOverrides plan;                      // SPLITWAVE_PLAN
  std::optional<int> threads;              // SPLITWAVE_THREADS: 1..1024
  bool trace_plan = false;                 // SPLITWAVE_TRACE=plan
  std::string state_dir;                   // SPLITWAVE_STATE_DIR; empty: unset
};

// entries: "NAME=value" texts; names outside SPLITWAVE_ are ignored. Empty values count as unset.
[[nodiscard]] Expected<Environment> parse_environment(const std::vector<std::string>& entries);

// The process's environment.
[[nodiscard]] Expected<Environment> read_environment();

// base with every field that over sets.
[[nodiscard]] PlanOverrides merged(const PlanOverrides& base, const PlanOverrides& over);

}  // namespace splitwave
