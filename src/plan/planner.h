// The planner: problem + device + traits in, one launch with its reasons out. Pure functions on
// plain data; no CUDA, no clock, no environment. Called by src/runtime at creation (once a batch
// size, the results kept in a table) and by the command line for devices that nobody here owns.
#pragma once

#include <span>

#include "plan/calibration.h"
#include "plan/tuning_table.h"
#include "splitwave/device.h"
#include "splitwave/plan.h"
#include "splitwave/problem.h"
#include "splitwave/status.h"

namespace splitwave {

// KV rows between a row's prefetch and its use on the CPU, when no override says otherwise.
inline constexpr int k_cpu_prefetch_rows_default = 16;

// Predicted times closer than this are a tie: the model's own error is larger (4.7 % rms,
// tests/plan/cost_test.cpp), and the source calls points comparable that it puts 1.2 % apart.
inline constexpr double k_model_tie = 0.02;

// What measurement has added to the model.
struct PlannerData {
  std::span<const CalibrationRecord> calibrations;
  std::span<const TuningSeries> tuning;
};

// The tuning table of this build and the source kernel's constants.
[[nodiscard]] const PlannerData& built_in_planner_data();

// Chooses variant, head block and split for one batch size. candidates: what the registry offers
// for this format, operand type and architecture. An override that no candidate can honour is an
// error that names the field, the value and what would work; a problem that no candidate serves is
// refused with the three lists required, offered, missing. rows = 0 gives a plan with 0 CTAs.
[[nodiscard]] Expected<Plan> choose_plan(const ProblemSpec& spec, const DeviceSpec& device,
                                         std::span<const VariantTraits> candidates, int rows,
                                         const PlanOverrides& overrides,
                                         const PlannerData& data = built_in_planner_data());

}  // namespace splitwave
