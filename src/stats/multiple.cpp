// Holm's adjustment and simultaneous levels.
#include "stats/multiple.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "base/check.h"

namespace splitwave::stats {

std::vector<double> holm_adjust(std::span<const double> p_values) {
  for (const double p : p_values) SPLITWAVE_CHECK(p >= 0 && p <= 1, "a p-value outside [0, 1]");
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size());
  double running = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const double remaining = static_cast<double>(order.size() - rank);
    running = std::max(running, std::min(1.0, remaining * p_values[order[rank]]));
    adjusted[order[rank]] = running;
  }
  return adjusted;
}

double simultaneous_level(double level, int intervals) {
  SPLITWAVE_CHECK(level > 0 && level < 1, "a level lies outside (0, 1)");
  return 1 - (1 - level) / std::max(1, intervals);
}

int resamples_for(double alpha, int tests) {
  SPLITWAVE_CHECK(alpha > 0 && alpha < 1, "an alpha lies outside (0, 1)");
  return static_cast<int>(std::ceil(2.0 * std::max(1, tests) / alpha));
}

}  // namespace splitwave::stats
