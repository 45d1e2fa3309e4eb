// What a faster component buys: step time = fixed + marginal * concurrency, of which a share of the
// marginal part speeds up. Owns the arithmetic of `splitwave project`, written out step by step,
// and the checks of claims against it in both directions. Pure. Called by the command line and by
// reports.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "splitwave/status.h"

namespace splitwave {

struct Interval {
  double low = 0;
  double high = 0;
};

struct MeasuredThroughput {
  int concurrency = 0;
  double tok_s = 0;
};

struct ProjectionInput {
  double fixed_ms = 0;     // of a step, whatever the batch
  double marginal_ms = 0;  // per request
  double share_ms = 0;     // the part of marginal_ms that the component takes; <= marginal_ms
  Interval speedup{1, 1};  // of the component; above 0
  std::vector<int> at;     // concurrencies, at least one
  std::vector<MeasuredThroughput> measured;
  // Claims by somebody else, to be checked: the marginal cost and the throughput that the speed-up
  // range is said to give. The lowest speed-up belongs to the highest marginal cost and to the
  // lowest throughput, whichever way round the claim is written.
  std::optional<Interval> claim_marginal_ms;
  std::optional<Interval> claim_tok_s;  // at the largest concurrency of `at`
};

struct ProjectedPoint {
  int concurrency = 0;
  double line_tok_s = 0;  // of the step line as given, no speed-up
  Interval step_ms;       // high: the lowest speed-up
  Interval tok_s;         // low: the lowest speed-up
  Interval gain;          // tok_s / line_tok_s - 1
  std::optional<double> measured_tok_s;
  std::optional<Interval> gain_over_measured;
  std::vector<std::string> arithmetic;
};

struct Inconsistency {
  std::string kind;  // "line", "slope", "marginal", "throughput", "speedup", "baseline"
  std::string text;  // the two numbers that disagree, and the value that would agree
};

struct Projection {
  Interval marginal_ms;  // after the speed-up; high: the lowest speed-up
  std::vector<std::string> arithmetic;
  std::vector<ProjectedPoint> points;
  std::vector<Inconsistency> inconsistencies;
};

// Numbers closer than this agree: claims are given with two digits.
inline constexpr double k_projection_tolerance = 0.02;

// Refuses a field that no step line has, by name, value and what works.
[[nodiscard]] Expected<Projection> project(const ProjectionInput& input);

// The component speed-up that turns marginal_ms into wanted_ms; nothing when no speed-up does,
// since the rest of the marginal cost already exceeds it.
[[nodiscard]] std::optional<double> speedup_for_marginal(const ProjectionInput& input,
                                                         double wanted_ms);

}  // namespace splitwave
