// Resampling, the four interval methods and their p-values.
#include "stats/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/check.h"
#include "base/random.h"
#include "stats/distributions.h"
#include "stats/quantiles.h"

namespace splitwave::stats {
namespace {

constexpr double k_infinity = std::numeric_limits<double>::infinity();

struct Estimate {
  double location = 0;
  double standard_error = 0;
};

// The rounds sorted once; a resample is then a count for each of them, and the order statistics
// that trimming needs come from one walk instead of a sort.
class SortedRounds {
 public:
  SortedRounds(std::span<const double> rounds, Location location)
      : values_(rounds.begin(), rounds.end()) {
    std::sort(values_.begin(), values_.end());
    if (location == Location::trimmed_mean) {
      cut_ = static_cast<int>(k_trimmed_share * static_cast<double>(values_.size()));
      // So many equal values that nothing but the cut ends differs: the Winsorised variance is 0
      // and would claim certainty. The mean says what is known.
      std::vector<int> once(values_.size(), 1);
      if (estimate(once).standard_error == 0) cut_ = 0;
    }
  }

  [[nodiscard]] int size() const { return static_cast<int>(values_.size()); }

  // The empirical influence of each round on the location, up to one factor: its value, held within
  // the range that trimming keeps.
  [[nodiscard]] std::vector<double> influence() const {
    std::vector<double> held = values_;
    for (double& x : held) x = std::clamp(x, values_[cut_], values_[values_.size() - 1 - cut_]);
    return held;
  }

  // Trimmed mean and its standard error from the Winsorised squares (Tukey and McLaughlin 1963, in
  // Yuen's form); with nothing cut, the mean and the usual standard error.
  [[nodiscard]] Estimate estimate(std::span<const int> counts) const {
    const int n = size();
    const int kept = n - 2 * cut_;
    double sum = 0;
    double lowest = 0;
    double highest = 0;
    int seen = 0;
    for (int i = 0; i < n; ++i) {
      const int from = std::max(seen, cut_);
      const int to = std::min(seen + counts[i], n - cut_);
      if (to > from) {
        if (from == cut_) lowest = values_[i];
        highest = values_[i];
        sum += values_[i] * (to - from);
      }
      seen += counts[i];
    }
    const double centre = sum / kept;
    const double winsorised = (sum + cut_ * (lowest + highest)) / n;
    double squares = 0;
    for (int i = 0; i < n; ++i) {
      const double x = std::clamp(values_[i], lowest, highest) - winsorised;
      squares += counts[i] * x * x;
    }
    return {centre, kept > 1 ? std::sqrt(squares / (static_cast<double>(kept) * (kept - 1))) : 0};
  }

 private:
  std::vector<double> values_;
  int cut_ = 0;
};

void draw_counts(Rng& rng, std::vector<int>& counts) {
  std::fill(counts.begin(), counts.end(), 0);
  const auto n = static_cast<std::uint32_t>(counts.size());
  for (std::uint32_t i = 0; i < n; ++i) ++counts[rng.below(n)];
}

// Two-sided and equal-tailed: twice the smaller tail of the replicates beyond the bound, with the
// observed sample counted in (Davison and Hinkley 1997, 4.2), so that p is never 0.
double two_sided_p(std::span<const double> sorted, double bound) {
  const auto at_most = std::upper_bound(sorted.begin(), sorted.end(), bound) - sorted.begin();
  const auto below = std::lower_bound(sorted.begin(), sorted.end(), bound) - sorted.begin();
  const auto at_least = static_cast<std::ptrdiff_t>(sorted.size()) - below;
  const double tail = static_cast<double>(std::min(at_most, at_least) + 1);
  return std::min(1.0, 2 * tail / static_cast<double>(sorted.size() + 1));
}

// The tail share that makes a percentile interval as wide as Student's t over n units (Hesterberg
// 2015, "expanded percentile").
double expanded_tail(double tail, int n) {
  if (n < 2) return 0;
  const double t = student_t_quantile(tail, n - 1);
  return normal_cdf(std::sqrt(static_cast<double>(n) / (n - 1)) * t);
}

Interval percentile_interval(std::span<const double> sorted, double estimate, double low_share,
                             double high_share) {
  return {sorted_quantile(sorted, low_share), estimate, sorted_quantile(sorted, high_share)};
}

// BCa (Efron 1987): z0 corrects the median bias, `acceleration` the skewness, from the
// influence of each round.
struct BcaTerms {
  double z0 = 0;
  double acceleration = 0;

  [[nodiscard]] double share(double nominal) const {
    const double z = z0 + normal_quantile(nominal);
    return normal_cdf(z0 + z / (1 - acceleration * z));
  }
};

BcaTerms bca_terms(const SortedRounds& rounds, std::span<const double> sorted, double estimate) {
  double below = 0;
  for (const double x : sorted) below += x < estimate ? 1 : x == estimate ? 0.5 : 0;
  const double share = below / static_cast<double>(sorted.size());
  const double half_step = 0.5 / static_cast<double>(sorted.size());
  BcaTerms terms;
  terms.z0 = normal_quantile(std::clamp(share, half_step, 1 - half_step));
  const std::vector<double> influence = rounds.influence();
  const double centre = mean(influence);
  double squares = 0;
  double cubes = 0;
  for (const double value : influence) {
    const double x = value - centre;
    squares += x * x;
    cubes += x * x * x;
  }
  if (squares > 0) terms.acceleration = cubes / (6 * std::pow(squares, 1.5));
  return terms;
}

LocationResult percentile_result(const SortedRounds& rounds, const BootstrapOptions& options,
                                 const Estimate& observed, std::vector<double>& replicates) {
  std::sort(replicates.begin(), replicates.end());
  const double tail = 0.5 * (1 - options.level);
  LocationResult result;
  result.standard_error = observed.standard_error;
  result.rounds = rounds.size();
  result.p_value = two_sided_p(replicates, 0);
  double low = tail;
  double high = 1 - tail;
  if (options.method == IntervalMethod::expanded_percentile) {
    low = expanded_tail(tail, rounds.size());
    high = 1 - low;
    // The same expansion, inverted: the tail at which the widened interval would end at 0.
    const double z = normal_quantile(0.5 * result.p_value);
    const int n = rounds.size();
    result.p_value = 2 * student_t_cdf(z / std::sqrt(static_cast<double>(n) / (n - 1)), n - 1);
  } else if (options.method == IntervalMethod::bca) {
    const BcaTerms terms = bca_terms(rounds, replicates, observed.location);
    low = terms.share(tail);
    high = terms.share(1 - tail);
    // Inverts share(): the nominal tail whose endpoint is the replicates' share below 0.
    const double grain = 1 / static_cast<double>(replicates.size() + 1);
    const auto at_most =
        std::upper_bound(replicates.begin(), replicates.end(), 0.0) - replicates.begin();
    const double reached = std::clamp(static_cast<double>(at_most) * grain, grain, 1 - grain);
    const double w = normal_quantile(reached) - terms.z0;
    const double nominal = normal_cdf(w / (1 + terms.acceleration * w) - terms.z0);
    result.p_value = std::min(1.0, 2 * std::min(nominal, 1 - nominal));
  }
  result.interval = percentile_interval(replicates, observed.location, low, high);
  return result;
}

LocationResult studentized_result(const SortedRounds& rounds, const BootstrapOptions& options,
                                  const Estimate& observed, std::vector<double>& t_values) {
  std::sort(t_values.begin(), t_values.end());
  const double tail = 0.5 * (1 - options.level);
  LocationResult result;
  result.standard_error = observed.standard_error;
  result.rounds = rounds.size();
  result.interval.estimate = observed.location;
  result.interval.low =
      observed.location - sorted_quantile(t_values, 1 - tail) * observed.standard_error;
  result.interval.high =
      observed.location - sorted_quantile(t_values, tail) * observed.standard_error;
  result.p_value = two_sided_p(t_values, observed.location / observed.standard_error);
  return result;
}

}  // namespace

std::vector<double> paired_log_ratios(std::span<const double> incumbent_times,
                                      std::span<const double> arm_times) {
  SPLITWAVE_CHECK(incumbent_times.size() == arm_times.size(), "pairs of unequal length");
  std::vector<double> ratios(arm_times.size());
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    SPLITWAVE_CHECK(incumbent_times[i] > 0 && arm_times[i] > 0, "a time is not positive");
    ratios[i] = std::log(incumbent_times[i] / arm_times[i]);
  }
  return ratios;
}

LocationResult bootstrap_location(std::span<const double> rounds, const BootstrapOptions& options) {
  SPLITWAVE_CHECK(options.level > 0 && options.level < 1, "a level lies outside (0, 1)");
  SPLITWAVE_CHECK(options.resamples > 0, "no resamples");
  for (const double x : rounds) SPLITWAVE_CHECK(std::isfinite(x), "a round's value is not finite");
  const int n = static_cast<int>(rounds.size());
  LocationResult result;
  result.rounds = n;
  if (n < 2) {
    result.interval = {-k_infinity, n == 1 ? rounds[0] : 0, k_infinity};
    result.standard_error = k_infinity;
    return result;
  }
  const SortedRounds sorted(rounds, options.location);
  const Estimate observed = sorted.estimate(std::vector<int>(n, 1));
  if (observed.standard_error == 0) {  // every round equal
    result.interval = {observed.location, observed.location, observed.location};
    const double grain = 2 / static_cast<double>(options.resamples + 1);
    result.p_value = observed.location == 0 ? 1 : std::min(1.0, grain);
    return result;
  }
  const bool studentized = options.method == IntervalMethod::studentized;
  Rng rng(options.seed);
  std::vector<int> counts(n);
  std::vector<double> replicates(options.resamples);
  for (double& replicate : replicates) {
    draw_counts(rng, counts);
    const Estimate drawn = sorted.estimate(counts);
    if (!studentized) {
      replicate = drawn.location;
      continue;
    }
    // A resample of one repeated value has no spread. Its t is infinite: with so few rounds that it
    // reaches the quantile the interval becomes infinite, which is what such rounds can say.
    const double shift = drawn.location - observed.location;
    replicate = drawn.standard_error > 0 ? shift / drawn.standard_error
                : shift == 0             ? 0
                                         : std::copysign(k_infinity, shift);
  }
  return studentized ? studentized_result(sorted, options, observed, replicates)
                     : percentile_result(sorted, options, observed, replicates);
}

LocationResult mix_score(std::span<const MixPoint> points, const BootstrapOptions& options) {
  SPLITWAVE_CHECK(!points.empty(), "a load mix without points");
  double total = 0;
  for (const MixPoint& point : points) {
    SPLITWAVE_CHECK(point.weight >= 0, "a negative weight");
    SPLITWAVE_CHECK(point.log_ratios.size() == points[0].log_ratios.size(),
                    "the points of a load mix hold different rounds");
    total += point.weight;
  }
  SPLITWAVE_CHECK(total > 0, "the weights of a load mix are all 0");
  std::vector<double> scores(points[0].log_ratios.size(), 0.0);
  for (const MixPoint& point : points) {
    for (std::size_t r = 0; r < scores.size(); ++r) {
      scores[r] += point.weight / total * point.log_ratios[r];
    }
  }
  return bootstrap_location(scores, options);
}

std::vector<double> resample_clusters(
    int clusters, int resamples, std::uint64_t seed,
    const std::function<double(std::span<const int>)>& statistic) {
  SPLITWAVE_CHECK(clusters > 0 && resamples > 0, "no clusters or no resamples");
  Rng rng(seed);
  std::vector<int> picks(clusters);
  std::vector<double> replicates(resamples);
  for (double& replicate : replicates) {
    for (int& pick : picks) {
      pick = static_cast<int>(rng.below(static_cast<std::uint32_t>(clusters)));
    }
    replicate = statistic(picks);
  }
  return replicates;
}

Interval interval_of_replicates(std::span<const double> replicates, double estimate, int clusters,
                                double level, IntervalMethod method) {
  SPLITWAVE_CHECK(
      method == IntervalMethod::percentile || method == IntervalMethod::expanded_percentile,
      "only the percentile methods work on replicates alone");
  std::vector<double> sorted;
  std::copy_if(replicates.begin(), replicates.end(), std::back_inserter(sorted),
               [](double x) { return !std::isnan(x); });
  if (sorted.empty() || clusters < 2) return {-k_infinity, estimate, k_infinity};
  std::sort(sorted.begin(), sorted.end());
  double tail = 0.5 * (1 - level);
  if (method == IntervalMethod::expanded_percentile) tail = expanded_tail(tail, clusters);
  return percentile_interval(sorted, estimate, tail, 1 - tail);
}

}  // namespace splitwave::stats
