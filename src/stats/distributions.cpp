// Normal, Student's t, beta: erfc from the standard library, the rest by a continued fraction and
// bisection. Accuracy is what tests/stats/distributions_test.cpp asserts.
#include "stats/distributions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/check.h"

namespace splitwave::stats {
namespace {

constexpr int k_fraction_terms_max = 10'000;
constexpr int k_bisections = 1'100;  // a double halves at most 1,075 times

// The continued fraction of DLMF 8.17.22, by the modified Lentz algorithm. Converges fast for
// x < (a + 1) / (a + b + 2).
double beta_fraction(double a, double b, double x) {
  constexpr double tiny = 1e-300;
  double c = 1;
  double d = 1 - (a + b) * x / (a + 1);
  d = 1 / (std::fabs(d) < tiny ? tiny : d);
  double result = d;
  for (int m = 1; m <= k_fraction_terms_max; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 + even * d;
    d = 1 / (std::fabs(d) < tiny ? tiny : d);
    c = 1 + even / c;
    c = std::fabs(c) < tiny ? tiny : c;
    result *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 + odd * d;
    d = 1 / (std::fabs(d) < tiny ? tiny : d);
    c = 1 + odd / c;
    c = std::fabs(c) < tiny ? tiny : c;
    result *= d * c;
    if (std::fabs(d * c - 1) < 1e-15) break;
  }
  return result;
}

// std::lgamma writes the global signgam, which is a data race; arguments here are positive, so the
// reentrant form's sign is of no interest.
double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

}  // namespace

double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

double normal_quantile(double p) {
  SPLITWAVE_CHECK(p > 0 && p < 1, "a probability lies outside (0, 1)");
  if (p > 0.5) return -normal_quantile(1 - p);
  // Halley's iteration from the tail's leading term, or from the tangent at the centre.
  double z = -std::sqrt(-2 * std::log(p));
  if (p > 0.1) z = (p - 0.5) * std::sqrt(2 * std::numbers::pi);
  for (int i = 0; i < 100; ++i) {
    const double density = std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi);
    const double error = normal_cdf(z) - p;
    const double newton = error / density;
    const double step = newton / (1 + 0.5 * z * newton);  // the density's derivative is -z times it
    z -= step;
    if (std::fabs(step) <= 1e-15 * std::max(1.0, std::fabs(z))) break;
  }
  return z;
}

double regularized_beta(double a, double b, double x) {
  SPLITWAVE_CHECK(a > 0 && b > 0 && x >= 0 && x <= 1, "a beta argument is out of range");
  if (x == 0 || x == 1) return x;
  const double front = std::exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * std::log(x) +
                                b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double beta_quantile(double p, double a, double b) {
  SPLITWAVE_CHECK(p >= 0 && p <= 1, "a probability lies outside [0, 1]");
  double low = 0;
  double high = 1;
  for (int i = 0; i < k_bisections && high - low > 1e-16 * high; ++i) {
    const double middle = 0.5 * (low + high);
    (regularized_beta(a, b, middle) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

double student_t_cdf(double t, double degrees) {
  SPLITWAVE_CHECK(degrees > 0, "Student's t needs positive degrees of freedom");
  if (std::isinf(t)) return t > 0 ? 1 : 0;
  const double tail = 0.5 * regularized_beta(0.5 * degrees, 0.5, degrees / (degrees + t * t));
  return t > 0 ? 1 - tail : tail;
}

double student_t_quantile(double p, double degrees) {
  SPLITWAVE_CHECK(p > 0 && p < 1, "a probability lies outside (0, 1)");
  if (p == 0.5) return 0;
  if (p > 0.5) return -student_t_quantile(1 - p, degrees);
  double high = 0;
  double low = -1;
  while (student_t_cdf(low, degrees) > p && low > -1e150) low *= 2;
  for (int i = 0; i < k_bisections && high - low > 1e-15 * std::fabs(low); ++i) {
    const double middle = 0.5 * (low + high);
    (student_t_cdf(middle, degrees) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

double binomial_upper_bound(std::int64_t events, std::int64_t trials, double confidence) {
  SPLITWAVE_CHECK(events >= 0 && events <= trials, "more events than trials");
  SPLITWAVE_CHECK(confidence > 0 && confidence < 1, "a confidence lies outside (0, 1)");
  if (events == trials) return 1;
  // -expm1(log(x) / n) is 1 - x^(1/n) without the cancellation.
  if (events == 0) return -std::expm1(std::log1p(-confidence) / static_cast<double>(trials));
  return beta_quantile(confidence, static_cast<double>(events) + 1,
                       static_cast<double>(trials - events));
}

double rule_of_three(std::int64_t trials) {
  SPLITWAVE_CHECK(trials >= 0, "a negative number of trials");
  return trials <= 3 ? 1 : 3 / static_cast<double>(trials);
}

}  // namespace splitwave::stats
