// The step-time model: step_ms(B) = fixed + marginal * B, from samples of decode steps at several
// concurrencies. Owns the fit, its intervals, the optional terms and the list of what does not fit
// together. Reads no file (src/load/step_samples does) and projects nothing (src/plan does).
// Called by `splitwave fit` and by the experiment's report.
//
// How. Samples are first reduced to the median of each (session, concurrency) cell: a session
// shares a server start, clocks and neighbours, so its samples are not independent and a session
// with more of them does not know more. Weights are 1 / fitted^2, found by refitting: step times
// scatter in proportion to themselves, and an unweighted fit would be decided by the largest batch.
// Intervals come from drawing whole sessions with replacement (cluster bootstrap), widened by
// Student's t for the number of sessions (IntervalMethod::expanded_percentile).
//
// Optional terms, each tried on top of the line: waves, ceil(B / rows_per_wave), the step that a
// full wave of CTAs adds; experts, E (1 - (1 - k/E)^B), the distinct experts that B tokens touch
// under uniform routing, 256 and 6 for V4-Flash. A term stays only if it predicts concurrencies
// that the fit has not seen better than the line does: at most 0.7 times its error, and a gain of
// more than one standard error. The lowest and highest concurrency are never left out, since
// predicting beyond the data is another question. rows_per_wave is searched inside each fold, so
// that the search pays for itself.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "splitwave/status.h"
#include "stats/bootstrap.h"

namespace splitwave::stats {

struct StepSample {
  std::string session;
  int concurrency = 0;  // >= 1: tokens a step
  double step_ms = 0;   // > 0
};

struct StepFitOptions {
  double level = 0.95;
  int resamples = k_resamples_default;
  std::uint64_t seed = 1;
  std::optional<int> rows_per_wave = {};  // known from the plan; searched when empty
  int experts = 256;
  int experts_per_token = 6;
};

struct StepPoint {
  int concurrency = 0;
  int samples = 0;
  int sessions = 0;
  double step_ms = 0;    // mean over sessions of each one's median
  double fitted_ms = 0;  // by the line
  double residual_ms = 0;
  double residual_share = 0;  // residual / fitted
};

struct OptionalTerm {
  std::string name = {};  // "waves" or "experts"
  bool kept = false;
  double coefficient_ms = 0;              // ms a wave, ms an expert
  std::optional<int> rows_per_wave = {};  // of "waves"
  double line_error = 0;    // root mean square relative error on concurrencies left out
  double term_error = 0;    // the same with the term
  std::string reason = {};  // why kept or not, in words
  // The model with this term; the line's two numbers change their meaning beside it.
  double fixed_ms = 0;
  double marginal_ms = 0;
};

struct StepFit {
  Interval fixed_ms;     // infinite ends when there are fewer than 2 sessions
  Interval marginal_ms;  // per request
  double r2 = 0;         // weighted
  int sessions = 0;
  double level = 0;
  std::vector<StepPoint> points;  // by concurrency
  std::vector<OptionalTerm> terms;
  std::vector<std::string> inconsistencies;  // what a reader should not overlook, in words

  [[nodiscard]] double line_ms(double concurrency) const {
    return fixed_ms.estimate + marginal_ms.estimate * concurrency;
  }
};

inline constexpr int k_sessions_few = 6;  // below this many an interval says so
inline constexpr int k_concurrencies_for_terms = 5;

// bad_input when there are fewer than 2 distinct concurrencies, or a sample is not positive.
[[nodiscard]] Expected<StepFit> fit_step_time(std::span<const StepSample> samples,
                                              const StepFitOptions& options);

// E (1 - (1 - k/E)^B).
[[nodiscard]] double distinct_experts(int experts, int experts_per_token, double tokens);

}  // namespace splitwave::stats
