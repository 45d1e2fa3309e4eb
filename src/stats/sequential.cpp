// The anytime-valid t-test; formulas and their source stand in the header.
#include "stats/sequential.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace splitwave::stats {
namespace {

double log_e(int n, double mean_shift, double squares, double prior_variance) {
  if (n < 2) return 0;
  const double growth = 1 + n * prior_variance;
  const double half_log = 0.5 * std::log(growth);
  if (squares == 0) {
    // No spread at all: t is 0/0 at the mean, infinite elsewhere.
    return mean_shift == 0 ? -half_log : (n - 1) * half_log;
  }
  const double u = n * mean_shift * mean_shift / squares;  // t^2 / (n - 1)
  return -half_log + 0.5 * n * (std::log1p(u) - std::log1p(u / growth));
}

}  // namespace

SequentialMean::SequentialMean(const SequentialOptions& options) : options_(options) {
  SPLITWAVE_CHECK(options.alpha > 0 && options.alpha < 1, "an alpha lies outside (0, 1)");
  SPLITWAVE_CHECK(options.effect_prior_deviation > 0, "a prior needs a positive deviation");
}

void SequentialMean::add(double value) {
  SPLITWAVE_CHECK(std::isfinite(value), "a round's value is not finite");
  ++count_;
  const double before = value - mean_;
  mean_ += before / count_;
  squares_ += before * (value - mean_);
  const double g = options_.effect_prior_deviation * options_.effect_prior_deviation;
  largest_log_e_ = std::max(largest_log_e_, log_e(count_, mean_, squares_, g));
}

double SequentialMean::e_value(double mu0) const {
  const double g = options_.effect_prior_deviation * options_.effect_prior_deviation;
  return std::exp(log_e(count_, mean_ - mu0, squares_, g));
}

double SequentialMean::p_value() const { return std::exp(-largest_log_e_); }

Interval SequentialMean::interval() const {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double g = options_.effect_prior_deviation * options_.effect_prior_deviation;
  const double growth = 1 + count_ * g;
  if (count_ < 2) return {-infinity, mean_, infinity};
  const double a = std::exp(2.0 / count_ * (0.5 * std::log(growth) - std::log(options_.alpha)));
  if (a >= growth) return {-infinity, mean_, infinity};
  // squares / n stands for s^2 (n - 1) / n.
  const double radius = std::sqrt(squares_ / count_ * (a - 1) / (1 - a / growth));
  return {mean_ - radius, mean_, mean_ + radius};
}

}  // namespace splitwave::stats
