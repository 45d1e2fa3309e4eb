// Weighted linear least squares for a handful of terms. Owns the solver: modified Gram-Schmidt with
// a second pass, which keeps nearly parallel columns (batch size and distinct experts at small
// batches) apart where the normal equations lose them. Called by the step-time fit.
#pragma once

#include <span>
#include <vector>

#include "splitwave/status.h"

namespace splitwave::stats {

inline constexpr int k_terms_max = 8;

struct LeastSquares {
  std::vector<double> coefficients;  // one a column
  double weighted_squares = 0;       // sum of w * residual^2
  double r2 = 0;                     // 1 - that / sum of w * (y - weighted mean)^2
};

// Minimises sum of w (y - X b)^2. columns: X, one vector a term, each as long as y. Weights are
// positive. bad_input when there are fewer observations than terms, or a column depends on the
// others.
[[nodiscard]] Expected<LeastSquares> weighted_least_squares(
    std::span<const std::vector<double>> columns, std::span<const double> y,
    std::span<const double> weights);

}  // namespace splitwave::stats
