// The clock band, Theil and Sen's slope, Mann and Kendall's test.
#include "stats/drift.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>

#include "base/check.h"
#include "stats/distributions.h"
#include "stats/quantiles.h"

namespace splitwave::stats {
namespace {

// P(S >= s) when all n! orders are equally likely, by the recursion over inversions: adding the
// k-th value makes 0..k-1 of them (Kendall, "Rank Correlation Methods").
double exact_tail(int n, std::int64_t s) {
  const int pairs = n * (n - 1) / 2;
  std::vector<double> share(pairs + 1, 0.0);
  share[0] = 1;
  int reach = 0;
  for (int k = 2; k <= n; ++k) {
    std::vector<double> next(pairs + 1, 0.0);
    for (int i = 0; i <= reach; ++i) {
      for (int added = 0; added < k; ++added) next[i + added] += share[i] / k;
    }
    share.swap(next);
    reach += k - 1;
  }
  // s = pairs - 2 * inversions.
  double tail = 0;
  for (int inversions = 0; inversions <= pairs; ++inversions) {
    if (pairs - 2 * static_cast<std::int64_t>(inversions) >= s) tail += share[inversions];
  }
  return tail;
}

double normal_two_sided(double n, std::int64_t s, double tie_term) {
  const double variance = (n * (n - 1) * (2 * n + 5) - tie_term) / 18;
  if (variance <= 0) return 1;
  const double z = (std::fabs(static_cast<double>(s)) - 1) / std::sqrt(variance);
  return z <= 0 ? 1 : 2 * normal_cdf(-z);
}

}  // namespace

ClockBand clock_band(std::span<const double> readings, double tolerance, double reference) {
  SPLITWAVE_CHECK(tolerance >= 0, "a negative clock tolerance");
  ClockBand band;
  if (reference == 0) {
    std::vector<double> finite;
    std::copy_if(readings.begin(), readings.end(), std::back_inserter(finite),
                 [](double x) { return std::isfinite(x); });
    if (!finite.empty()) reference = median(finite);
  }
  band.reference = reference;
  band.low = reference * (1 - tolerance);
  band.high = reference * (1 + tolerance);
  for (std::size_t i = 0; i < readings.size(); ++i) {
    // Written so that a NaN is outside.
    if (!(readings[i] >= band.low && readings[i] <= band.high)) {
      band.outside.push_back(static_cast<int>(i));
    }
  }
  return band;
}

Trend trend_over_rounds(std::span<const double> values) {
  Trend trend;
  const int n = static_cast<int>(values.size());
  if (n < 4) return trend;
  for (const double x : values) SPLITWAVE_CHECK(std::isfinite(x), "a round's value is not finite");
  std::vector<double> slopes;
  slopes.reserve(static_cast<std::size_t>(n) * (n - 1) / 2);
  std::int64_t s = 0;
  for (int i = 0; i < n; ++i) {
    for (int j = i + 1; j < n; ++j) {
      slopes.push_back((values[j] - values[i]) / (j - i));
      s += values[j] > values[i] ? 1 : values[j] < values[i] ? -1 : 0;
    }
  }
  trend.slope_per_round = median(slopes);
  const double centre = std::fabs(median(values));
  if (centre > 0) trend.total_share = trend.slope_per_round * (n - 1) / centre;
  std::map<double, int> ties;
  for (const double x : values) ++ties[x];
  double tie_term = 0;
  for (const auto& [value, count] : ties) {
    tie_term += static_cast<double>(count) * (count - 1) * (2.0 * count + 5);
  }
  if (tie_term == 0 && n <= k_exact_rounds_max) {
    trend.p_value = std::min(1.0, 2 * exact_tail(n, std::abs(s)));
  } else {
    trend.p_value = normal_two_sided(n, s, tie_term);
  }
  return trend;
}

bool has_drifted(const Trend& trend, const DriftLimits& limits) {
  return trend.p_value <= limits.alpha && std::fabs(trend.total_share) >= limits.total_share;
}

}  // namespace splitwave::stats
