// Intervals for paired measurements by the bootstrap over rounds. Owns the resampling, the interval
// methods and the matching p-values. A round is the unit: everything measured inside one round
// shares its disturbances, so rounds are drawn, never calls. Pure functions of data and seed;
// called by the experiment's analysis, the bench, `tune` and `fit`.
//
// What to use, and why. Coverage of a nominal 95 % interval, 2,000 trials with 1,000 resamples each
// (normal data, log-normal with shape 0.6, normal with 10 % of the rounds 8 times as wide,
// Laplace):
//
//   location, method                    rounds     normal   skewed  outliers  Laplace
//   trimmed mean, studentized           8 .. 40    95..96   94..95  95..96    94..95   <- the
//   default trimmed mean, percentile            8 .. 40    93..95   93..95  93..95    93..95
//   trimmed mean, expanded percentile   8 .. 40    96..97   95..97  96..98    96..97
//   trimmed mean, bca                   8 .. 40    92..95   92..94  93..95    92..94
//   mean, studentized                   8 .. 40    95..96   93..94  89..95    91..93
//   mean, percentile                    8 .. 40    89..95   85..92  89..92    88..93
//   mean, expanded percentile           8 .. 40    95..96   90..93  93..95    94
//   mean, bca                           8 .. 40    88..95   86..92  84..85    85..92
//
// The 20 % trimmed mean also gives the narrowest intervals once a round in ten is hit by other work
// on the machine, which is the normal state of a machine. studentized (bootstrap-t) carries the
// small-sample correction that the percentile methods lack; expanded_percentile (Hesterberg, "What
// teachers should know about the bootstrap", Am. Stat. 69, 2015) is for statistics that have no
// standard error, over few units: `fit` uses it over sessions. Efron and Tibshirani, "An
// Introduction to the Bootstrap", 1993; Wilcox, "Introduction to Robust Estimation and Hypothesis
// Testing", 1997. tests/stats/bootstrap_test.cpp holds the default to 93..97.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace splitwave::stats {

struct Interval {
  double low = 0;
  double estimate = 0;
  double high = 0;

  [[nodiscard]] bool contains(double x) const { return low <= x && x <= high; }
};

enum class Location { trimmed_mean, mean };
enum class IntervalMethod { studentized, percentile, expanded_percentile, bca };

inline constexpr double k_trimmed_share = 0.2;  // cut from each end
inline constexpr int k_resamples_default = 2'000;

struct BootstrapOptions {
  Location location = Location::trimmed_mean;
  IntervalMethod method = IntervalMethod::studentized;
  double level = 0.95;  // two-sided; a one-sided bound at 1 - a is the end of a 1 - 2a interval
  int resamples = k_resamples_default;
  std::uint64_t seed = 1;
};

struct LocationResult {
  Interval interval = {};
  double standard_error = 0;
  double p_value = 1;  // two-sided against 0, from the same resamples: below 1 - level exactly when
                       // the interval leaves 0 out, up to the grain 2 / (resamples + 1)
  int rounds = 0;
};

// ln(incumbent / arm) of two lists of times by round: positive where the arm is faster. Same
// length, every time positive.
[[nodiscard]] std::vector<double> paired_log_ratios(std::span<const double> incumbent_times,
                                                    std::span<const double> arm_times);

// The location of the rounds' values with its interval. Fewer than two rounds bound nothing: the
// interval is infinite and p is 1.
[[nodiscard]] LocationResult bootstrap_location(std::span<const double> rounds,
                                                const BootstrapOptions& options);

// One point of the load mix: its weight and the arm's paired log ratios by round.
struct MixPoint {
  double weight = 0;  // >= 0; the weights are scaled to sum 1
  std::span<const double> log_ratios;
};

// score = sum of w ln(throughput of the arm / of the incumbent). Rounds are drawn whole, so what
// the points of one round share stays shared: every point must hold the same rounds.
[[nodiscard]] LocationResult mix_score(std::span<const MixPoint> points,
                                       const BootstrapOptions& options);

// Any statistic over clusters (sessions, tasks): calls statistic(picks) once for each resample with
// `clusters` indices drawn with replacement, and returns the replicates. A replicate that cannot be
// computed is NaN; interval_of_replicates leaves it out.
[[nodiscard]] std::vector<double> resample_clusters(
    int clusters, int resamples, std::uint64_t seed,
    const std::function<double(std::span<const int>)>& statistic);

// percentile or expanded_percentile over such replicates; `clusters` sets the expansion.
[[nodiscard]] Interval interval_of_replicates(std::span<const double> replicates, double estimate,
                                              int clusters, double level, IntervalMethod method);

}  // namespace splitwave::stats
