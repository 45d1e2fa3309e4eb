// Order statistics and moments of a sample. Owns the one definition of "quantile" that every figure
// of the project uses: Hyndman and Fan's type 7, linear between order statistics, h = (n - 1) p
// (the default of R and NumPy; "Sample quantiles in statistical packages", Am. Stat. 50, 1996).
// Pure functions; called by the bench, the experiment's analysis and `fit`. An empty sample is a
// broken invariant, a NaN in it too.
#pragma once

#include <span>
#include <vector>

namespace splitwave::stats {

[[nodiscard]] double quantile(std::span<const double> sample, double p);  // 0 <= p <= 1
[[nodiscard]] double median(std::span<const double> sample);
[[nodiscard]] double p90(std::span<const double> sample);
[[nodiscard]] double mean(std::span<const double> sample);

// With n - 1 in the denominator; 0 for one value.
[[nodiscard]] double standard_deviation(std::span<const double> sample);

// Same definition on values that are sorted already; no copy.
[[nodiscard]] double sorted_quantile(std::span<const double> sorted, double p);

// The mean of what is left when floor(share * n) values are cut from each end, 0 <= share < 0.5.
[[nodiscard]] double trimmed_mean(std::span<const double> sample, double share);

// Median absolute deviation from the median, times 1.4826: the standard deviation of normal data.
[[nodiscard]] double robust_deviation(std::span<const double> sample);

}  // namespace splitwave::stats
