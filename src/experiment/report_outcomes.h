// What the measurements say about the plan's expectations. Owns the outcome words of projections
// and of the falsification, why an arm was rejected, and the step-time fit's sentence. Used by
// report.cpp and plots.cpp.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiment/record.h"

namespace splitwave::experiment {

struct Outcome {
  std::string measured;  // "+1.2 [+0.8, +1.6]" or "-"
  std::string word;
};

// The interval lies inside the envelope, above it, below it, or overlaps one of its ends.
[[nodiscard]] Outcome projection_outcome(const RunSpec& run, const Verdict& verdict,
                                         const Projection& projection);
// refuted (the whole interval lies beyond the bound), survived (none of it does), open.
[[nodiscard]] Outcome falsification_outcome(const RunSpec& run, const Verdict& verdict,
                                            const Falsification& falsification);

[[nodiscard]] std::string why_rejected(const RunSpec& spec, const RunRecord& run,
                                       const Verdict& verdict, const ArmVerdict& arm);

// "the mix" or "C64".
[[nodiscard]] std::string at_text(int at);

// step_ms(C) = fixed + marginal x C of one slot's arm, over the points of the run.
struct StepLine {
  bool is_fitted = false;
  double fixed_ms = 0;
  double marginal_ms = 0;
  double fixed_low_ms = 0, fixed_high_ms = 0;
  double marginal_low_ms = 0, marginal_high_ms = 0;
  double r2 = 0;
};
[[nodiscard]] StepLine fit_arm(const ResultRecord& record, const Verdict& verdict, int arm);

[[nodiscard]] std::string step_fit_text(const ResultRecord& record, const Verdict& verdict);

}  // namespace splitwave::experiment
