// The few distribution functions that the tests need: normal, Student's t, beta and the exact
// binomial bound. Owns their numerics, on the standard library alone; tests/stats checks them
// against Boost.Math. Called inside src/stats, and by the corruption gate for its bound.
#pragma once

#include <cstdint>

namespace splitwave::stats {

[[nodiscard]] double normal_cdf(double z);
[[nodiscard]] double normal_quantile(double p);  // 0 < p < 1

[[nodiscard]] double student_t_cdf(double t, double degrees);       // degrees > 0
[[nodiscard]] double student_t_quantile(double p, double degrees);  // 0 < p < 1

// I_x(a, b), the beta distribution's cumulative function (DLMF 8.17); a, b > 0, 0 <= x <= 1.
[[nodiscard]] double regularized_beta(double a, double b, double x);
[[nodiscard]] double beta_quantile(double p, double a, double b);

// The exact upper bound on a binomial rate after `events` of `trials`, one-sided at `confidence`
// (Clopper and Pearson, Biometrika 26, 1934): 1 - (1 - confidence)^(1/trials) when events is 0.
// trials = 0 bounds nothing: 1.
[[nodiscard]] double binomial_upper_bound(std::int64_t events, std::int64_t trials,
                                          double confidence = 0.95);

// 3 / trials, at most 1: what -ln(0.05) = 2.996 rounds to, the 95 % bound when no event was seen.
// It is never below the exact bound. For 0 events only.
[[nodiscard]] double rule_of_three(std::int64_t trials);

}  // namespace splitwave::stats
