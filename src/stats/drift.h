// Did the machine hold still? Owns the clock band and the trend over rounds. A drift does not bias
// paired rounds, which run both ways, but it widens them and says that the machine was not the one
// that was planned for: the report shows it. Called by the experiment runner after the last round,
// and by the bench.
#pragma once

#include <span>
#include <vector>

namespace splitwave::stats {

struct ClockBand {
  double reference = 0;  // the rounds' median, or what the caller expects
  double low = 0;
  double high = 0;
  std::vector<int> outside;  // rounds off the band, ascending: to be dropped and counted
};

// One clock reading a round (any unit). reference 0 takes the median of the readings. tolerance is
// a fraction of the reference on both sides. A reading that is not finite is outside.
[[nodiscard]] ClockBand clock_band(std::span<const double> readings, double tolerance,
                                   double reference = 0);

struct Trend {
  double slope_per_round = 0;  // Theil and Sen: the median of all pairwise slopes
  double total_share = 0;      // slope * (rounds - 1) / |median|: the change over the run
  double p_value = 1;          // Mann and Kendall's test of "no monotone trend", two-sided
};

// Robust to outliers and to any monotone shape. Exact distribution up to k_exact_rounds_max rounds
// without ties, normal with tie correction and continuity beyond. Fewer than 4 rounds show nothing.
[[nodiscard]] Trend trend_over_rounds(std::span<const double> values);

inline constexpr int k_exact_rounds_max = 40;

struct DriftLimits {
  double alpha = 0.01;        // several series are looked at in one run
  double total_share = 0.02;  // a trend smaller than this is no drift, however sure
};

// A trend that is both sure and large enough to matter.
[[nodiscard]] bool has_drifted(const Trend& trend, const DriftLimits& limits);

}  // namespace splitwave::stats
