// What the raw samples say. Owns the analysis: paired log ratios by round, intervals, Holm, the
// verdict on each point, the load-mix score, the no-regression rule and the stopping rule. A pure
// function of the plan and the record, so that `ab report` derives it again, bit for bit. The
// choice between arms is decision.h's. Standard library and src/stats only. Called by the runner
// (stopping) and by the record.
#pragma once

#include <string>
#include <vector>

#include "experiment/run_record.h"
#include "experiment/run_spec.h"
#include "stats/bootstrap.h"
#include "stats/drift.h"
#include "stats/effect.h"

namespace splitwave::experiment {

// The metric of one sample: sum over the streams of layers x microseconds per call.
[[nodiscard]] double step_us(const RunSpec& run, const Sample& sample);

// Log ratios are ln(incumbent / arm): positive where the arm is faster.
struct PointVerdict {
  int arm = 0;
  int point = 0;  // index
  stats::Effect effect = stats::Effect::undecided;
  stats::Interval ratio;         // at 1 - alpha, this point alone
  stats::Interval simultaneous;  // at the level at which all points of all arms hold together
  double p_value = 1;
  double adjusted_p = 1;  // Holm over all points of all arms
  bool rules_out_regression = false;
  bool is_same_launch = false;  // the arm launches what the incumbent launches here
  double incumbent_us = 0;      // median over the rounds
  double arm_us = 0;
  double arm_us_low = 0;  // quartiles over the rounds
  double arm_us_high = 0;
  double arm_kilocycles = 0;  // median of time x the round's clock
  std::string note;           // why a point is undecided in spite of its numbers
};

struct ArmVerdict {
  int arm = 0;
  bool is_measured = false;    // false: a gate ended it
  stats::Interval score;       // sum of weight x log ratio
  bool no_regression = false;  // at every measured point
};

struct Verdict {
  int rounds_used = 0;
  std::vector<int> rounds_dropped;  // off the clock band
  stats::ClockBand clock;
  stats::Trend clock_trend;
  stats::Trend time_trend;  // of the incumbent's mean log time over the rounds
  bool has_drifted = false;
  double noise_floor = 0;            // largest half width of the A/A intervals, as a fraction
  bool is_noisy = false;             // the A/A pair differs somewhere: no verdict there
  std::vector<PointVerdict> same;    // the A/A pair, one a point; arm 0
  std::vector<PointVerdict> points;  // arms 1.. in order, points within
  std::vector<ArmVerdict> arms;      // arms 1..
};

[[nodiscard]] Verdict analyse(const RunSpec& run, const RunRecord& record);

// The anytime rule: true once every measured arm is decided at every point. Valid at every look.
[[nodiscard]] bool may_stop(const RunSpec& run, const RunRecord& record);

// Ratios as the change of throughput in percent.
[[nodiscard]] double percent_of(double log_ratio);

}  // namespace splitwave::experiment
