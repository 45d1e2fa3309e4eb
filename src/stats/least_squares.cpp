// Modified Gram-Schmidt on weighted columns.
#include "stats/least_squares.h"

#include <cmath>
#include <cstddef>
#include <string>

#include "base/check.h"

namespace splitwave::stats {
namespace {

// Below this share of its first length a column is a combination of the ones before it.
constexpr double k_dependent_share = 1e-10;

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double weighted_total_squares(std::span<const double> y, std::span<const double> weights) {
  double weight = 0;
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    weight += weights[i];
    sum += weights[i] * y[i];
  }
  const double centre = sum / weight;
  double squares = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    squares += weights[i] * (y[i] - centre) * (y[i] - centre);
  }
  return squares;
}

}  // namespace

Expected<LeastSquares> weighted_least_squares(std::span<const std::vector<double>> columns,
                                              std::span<const double> y,
                                              std::span<const double> weights) {
  const std::size_t rows = y.size();
  const std::size_t terms = columns.size();
  SPLITWAVE_CHECK(terms >= 1 && terms <= k_terms_max, "a fit with no term or too many");
  SPLITWAVE_CHECK(weights.size() == rows, "weights and observations differ in number");
  if (rows < terms) {
    return bad_input(std::to_string(rows) + " observations cannot fix " + std::to_string(terms) +
                     " terms");
  }
  std::vector<double> roots(rows);
  std::vector<double> target(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    SPLITWAVE_CHECK(weights[i] > 0, "a weight is not positive");
    roots[i] = std::sqrt(weights[i]);
    target[i] = roots[i] * y[i];
  }
  std::vector<std::vector<double>> q(terms, std::vector<double>(rows));
  std::vector<std::vector<double>> r(terms, std::vector<double>(terms, 0.0));
  for (std::size_t k = 0; k < terms; ++k) {
    SPLITWAVE_CHECK(columns[k].size() == rows, "a column of the wrong length");
    for (std::size_t i = 0; i < rows; ++i) q[k][i] = roots[i] * columns[k][i];
    const double length = std::sqrt(dot(q[k], q[k]));
    for (int pass = 0; pass < 2; ++pass) {  // the second pass restores lost orthogonality
      for (std::size_t j = 0; j < k; ++j) {
        const double projection = dot(q[j], q[k]);
        r[j][k] += projection;
        for (std::size_t i = 0; i < rows; ++i) q[k][i] -= projection * q[j][i];
      }
    }
    r[k][k] = std::sqrt(dot(q[k], q[k]));
    if (!(r[k][k] > k_dependent_share * length)) {
      return bad_input("term " + std::to_string(k + 1) +
                       " cannot be told from the terms before it with these observations");
    }
    for (double& x : q[k]) x /= r[k][k];
  }
  LeastSquares fit;
  fit.coefficients.assign(terms, 0.0);
  std::vector<double> rotated(terms);
  for (std::size_t k = 0; k < terms; ++k) {
    rotated[k] = dot(q[k], target);
    for (std::size_t i = 0; i < rows; ++i) target[i] -= rotated[k] * q[k][i];
  }
  for (std::size_t k = terms; k-- > 0;) {
    double value = rotated[k];
    for (std::size_t j = k + 1; j < terms; ++j) value -= r[k][j] * fit.coefficients[j];
    fit.coefficients[k] = value / r[k][k];
  }
  fit.weighted_squares = dot(target, target);
  const double total = weighted_total_squares(y, weights);
  fit.r2 = total > 0 ? 1 - fit.weighted_squares / total : 1;
  return fit;
}

}  // namespace splitwave::stats
