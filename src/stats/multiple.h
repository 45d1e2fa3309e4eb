// Many points, one error rate. Owns Holm's step-down adjustment and the Bonferroni level for
// intervals that must hold together. Called by the experiment's analysis.
#pragma once

#include <span>
#include <vector>

namespace splitwave::stats {

// Adjusted p-values, in the order given: reject where the adjusted value is at most alpha, and the
// chance of any false rejection is at most alpha under every dependence between the points (Holm,
// "A simple sequentially rejective multiple test procedure", Scand. J. Stat. 6, 1979). Ties get
// equal values. Valid for anytime p-values too (sequential.h), at any stopping time.
[[nodiscard]] std::vector<double> holm_adjust(std::span<const double> p_values);

// The level at which each of `intervals` intervals must be built for all to hold together with
// probability `level`.
[[nodiscard]] double simultaneous_level(double level, int intervals);

// The least number of resamples at which a bootstrap p-value can pass Holm's first step: its grain
// is 2 / (resamples + 1), and the first step asks for alpha / tests.
[[nodiscard]] int resamples_for(double alpha, int tests);

}  // namespace splitwave::stats
