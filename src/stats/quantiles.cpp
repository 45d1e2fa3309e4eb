// Quantiles of type 7 and moments.
#include "stats/quantiles.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace splitwave::stats {
namespace {

std::vector<double> sorted_copy(std::span<const double> sample) {
  SPLITWAVE_CHECK(!sample.empty(), "a statistic of an empty sample");
  for (const double x : sample) SPLITWAVE_CHECK(!std::isnan(x), "NaN in a sample");
  std::vector<double> sorted(sample.begin(), sample.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace

double sorted_quantile(std::span<const double> sorted, double p) {
  SPLITWAVE_CHECK(!sorted.empty(), "a quantile of an empty sample");
  SPLITWAVE_CHECK(p >= 0 && p <= 1, "a quantile's p lies outside [0, 1]");
  const double h = static_cast<double>(sorted.size() - 1) * p;
  const auto below = static_cast<std::size_t>(h);
  const double share = h - static_cast<double>(below);
  // Without this test inf - inf would turn an infinite neighbour that has no weight into NaN.
  if (share == 0 || below + 1 >= sorted.size()) return sorted[below];
  if (sorted[below] == sorted[below + 1]) return sorted[below];
  return sorted[below] + share * (sorted[below + 1] - sorted[below]);
}

double quantile(std::span<const double> sample, double p) {
  return sorted_quantile(sorted_copy(sample), p);
}

double median(std::span<const double> sample) { return quantile(sample, 0.5); }

double p90(std::span<const double> sample) { return quantile(sample, 0.9); }

double mean(std::span<const double> sample) {
  SPLITWAVE_CHECK(!sample.empty(), "the mean of an empty sample");
  double sum = 0;
  for (const double x : sample) sum += x;
  return sum / static_cast<double>(sample.size());
}

double standard_deviation(std::span<const double> sample) {
  if (sample.size() < 2) return 0;
  const double centre = mean(sample);
  double squares = 0;
  for (const double x : sample) squares += (x - centre) * (x - centre);
  return std::sqrt(squares / static_cast<double>(sample.size() - 1));
}

double trimmed_mean(std::span<const double> sample, double share) {
  SPLITWAVE_CHECK(share >= 0 && share < 0.5, "a trimmed share lies outside [0, 0.5)");
  const std::vector<double> sorted = sorted_copy(sample);
  const auto cut = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
  return mean(std::span(sorted).subspan(cut, sorted.size() - 2 * cut));
}

double robust_deviation(std::span<const double> sample) {
  const double centre = median(sample);
  std::vector<double> distances(sample.begin(), sample.end());
  for (double& x : distances) x = std::fabs(x - centre);
  return 1.4826 * median(distances);
}

}  // namespace splitwave::stats
