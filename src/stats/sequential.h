// Stopping early without lying. Owns SequentialMean: an anytime-valid t-test of a mean with its
// confidence sequence. One may look after every round, stop when one likes, and the chance that 0
// was ever rejected while it is the truth stays at most alpha. Called by the experiment runner's
// stopping rule and by `tune`.
//
// The choice. Paired log ratios have an unknown variance that differs from point to point, which
// rules out the z-test forms of the mixture SPRT, and ranges without a bound, which rules out
// Hoeffding and empirical-Bernstein sequences. What remains exact is the t-statistic: put a normal
// prior of variance g on the effect in units of the standard deviation, and the right Haar prior on
// the standard deviation under both hypotheses; the Bayes factor depends on the data only through t
// and n, and is a test martingale with start 1 in the filtration of the t-statistics (Lai, "On
// confidence sequences", Ann. Stat. 4, 1976, with a flat prior; with the normal prior: Wang and
// Ramdas, "Anytime-valid t-tests and confidence sequences for Gaussian means with unknown
// variance", arXiv 2310.03722, 2023):
//
//   E_n = (1 + n g)^(-1/2) * ((1 + u) / (1 + u / (1 + n g)))^(n/2),   u = t^2 / (n - 1),
//   t = sqrt(n) (mean - mu0) / s.
//
// Ville's inequality gives P(sup E_n >= 1/alpha) <= alpha, and solving E_n < 1/alpha for mu0 gives
//
//   |mean - mu0| < s sqrt((n - 1)/n * (A - 1) / (1 - A/(1 + n g))),   A = (sqrt(1 + n
//   g)/alpha)^(2/n),
//
// unbounded while A >= 1 + n g. Exact for normal log ratios. Sums of symmetric heavy tails make t
// smaller, so the test is then conservative; strong skew is not covered, and tests/stats measures
// what it does. The price of peeking at 20 rounds is an interval about 1.6 times as wide as
// Student's.
#pragma once

#include "stats/bootstrap.h"

namespace splitwave::stats {

struct SequentialOptions {
  double alpha = 0.05;  // divide by the number of points, or adjust p_value() by Holm
  // Standard deviation of the prior on mean / deviation, sqrt(g). Sets where the test is sharpest,
  // not whether it is valid: 1 suits effects about as large as the spread of one round, which is
  // where stopping early pays.
  double effect_prior_deviation = 1.0;
};

class SequentialMean {
 public:
  explicit SequentialMean(const SequentialOptions& options);

  void add(double value);  // the next round's paired log ratio

  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] double mean() const { return mean_; }

  // Evidence against the mean being mu0: at least 1/alpha rejects it. 1 before the second round.
  [[nodiscard]] double e_value(double mu0 = 0) const;

  // The anytime p-value against 0: 1 / the largest e_value(0) so far, at most 1.
  [[nodiscard]] double p_value() const;

  // Whether 0 has been rejected at any look so far.
  [[nodiscard]] bool rejected() const { return p_value() <= options_.alpha; }

  // The confidence sequence now: all of them together cover the mean with probability 1 - alpha.
  [[nodiscard]] Interval interval() const;

 private:
  SequentialOptions options_;
  int count_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // of deviations from the running mean (Welford)
  double largest_log_e_ = 0;
};

}  // namespace splitwave::stats
