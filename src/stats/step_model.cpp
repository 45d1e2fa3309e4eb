// The line, its intervals over sessions, the optional terms, the inconsistencies.
#include "stats/step_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <map>
#include <numeric>

#include "stats/least_squares.h"
#include "stats/quantiles.h"

namespace splitwave::stats {
namespace {

constexpr int k_reweightings = 3;  // weights from the fitted values settle to 1e-6 in two
constexpr double k_residual_share_large = 0.03;
constexpr double k_r2_low = 0.95;
constexpr int k_rows_per_wave_max = 512;
// A term pays when it takes away this share of the line's error on concurrencies left out, and more
// than one standard error of the gain. On planted straight lines that keeps a term in 4 of 200
// trials (one standard error alone: 22), on planted waves and experts in 200 of 200.
constexpr double k_error_share_kept = 0.7;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

// One cell: the median step of a session at a concurrency.
struct Cell {
  int session = 0;
  int concurrency = 0;
  int samples = 0;
  double step_ms = 0;
};

struct Cells {
  std::vector<Cell> cells;
  std::vector<std::vector<int>> of_session;  // indices into cells
  std::vector<int> concurrencies;            // distinct, ascending
};

Cells reduce(std::span<const StepSample> samples) {
  std::map<std::string, int> ids;
  std::map<std::pair<int, int>, std::vector<double>> groups;
  for (const StepSample& sample : samples) {
    const int id = ids.try_emplace(sample.session, static_cast<int>(ids.size())).first->second;
    groups[{id, sample.concurrency}].push_back(sample.step_ms);
  }
  Cells reduced;
  reduced.of_session.resize(ids.size());
  for (const auto& [key, values] : groups) {
    reduced.of_session[key.first].push_back(static_cast<int>(reduced.cells.size()));
    reduced.cells.push_back(
        {key.first, key.second, static_cast<int>(values.size()), median(values)});
    reduced.concurrencies.push_back(key.second);
  }
  auto& all = reduced.concurrencies;
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return reduced;
}

// What a model adds to the line: nothing, waves of some size, or experts.
struct Extra {
  int rows_per_wave = 0;
  int experts = 0;
  int experts_per_token = 0;

  [[nodiscard]] bool present() const { return rows_per_wave > 0 || experts > 0; }
  [[nodiscard]] double at(int concurrency) const {
    if (rows_per_wave > 0) return (concurrency + rows_per_wave - 1) / rows_per_wave;
    return distinct_experts(experts, experts_per_token, concurrency);
  }
};

double predict(const std::vector<double>& coefficients, const Extra& extra, int concurrency) {
  double value = coefficients[0] + coefficients[1] * concurrency;
  if (extra.present()) value += coefficients[2] * extra.at(concurrency);
  return value;
}

// Least squares with weights 1 / fitted^2. Cells may repeat (a bootstrap draw).
Expected<LeastSquares> fit_cells(const std::vector<Cell>& cells, const Extra& extra) {
  const std::size_t n = cells.size();
  std::vector<std::vector<double>> columns(extra.present() ? 3 : 2, std::vector<double>(n));
  std::vector<double> y(n);
  std::vector<double> weights(n);
  for (std::size_t i = 0; i < n; ++i) {
    columns[0][i] = 1;
    columns[1][i] = cells[i].concurrency;
    if (extra.present()) columns[2][i] = extra.at(cells[i].concurrency);
    y[i] = cells[i].step_ms;
    weights[i] = 1 / (y[i] * y[i]);
  }
  Expected<LeastSquares> fit = weighted_least_squares(columns, y, weights);
  for (int pass = 0; pass < k_reweightings && fit; ++pass) {
    for (std::size_t i = 0; i < n; ++i) {
      // A fitted value that is not positive says nothing of the scatter there; keep the last
      // weight.
      const double fitted = predict(fit->coefficients, extra, cells[i].concurrency);
      if (fitted > 0) weights[i] = 1 / (fitted * fitted);
    }
    fit = weighted_least_squares(columns, y, weights);
  }
  return fit;
}

void bootstrap_line(const Cells& reduced, const StepFitOptions& options, StepFit& fit) {
  const int sessions = static_cast<int>(reduced.of_session.size());
  constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> marginals;
  const auto draw = [&](std::span<const int> picks) {
    std::vector<Cell> drawn;
    for (const int session : picks) {
      for (const int cell : reduced.of_session[session]) drawn.push_back(reduced.cells[cell]);
    }
    // A draw whose sessions all ran at one concurrency has no slope: left out of the replicates.
    const Expected<LeastSquares> line = fit_cells(drawn, {});
    marginals.push_back(line ? line->coefficients[1] : nothing);
    return line ? line->coefficients[0] : nothing;
  };
  const int resamples = sessions < 2 ? 1 : options.resamples;
  const auto fixed = resample_clusters(sessions, resamples, options.seed, draw);
  const auto method = IntervalMethod::expanded_percentile;
  fit.fixed_ms =
      interval_of_replicates(fixed, fit.fixed_ms.estimate, sessions, options.level, method);
  fit.marginal_ms =
      interval_of_replicates(marginals, fit.marginal_ms.estimate, sessions, options.level, method);
}

// The wave size that fits these cells best, or 0 when none can be told from the line.
int best_rows_per_wave(const std::vector<Cell>& cells, const std::vector<int>& concurrencies) {
  int best = 0;
  double least = std::numeric_limits<double>::infinity();
  const int limit = std::min(k_rows_per_wave_max, concurrencies.back() - 1);
  for (int rows = 2; rows <= limit; ++rows) {
    const auto fit = fit_cells(cells, {.rows_per_wave = rows});
    // A wave costs time: a negative step is noise that the search found.
    if (!fit || fit->coefficients[2] < 0 || fit->weighted_squares >= least) continue;
    least = fit->weighted_squares;
    best = rows;
  }
  return best;
}

// Relative prediction errors at each concurrency left out, by the line and with the term.
struct Folds {
  std::vector<double> line;
  std::vector<double> term;
};

// The extra to try on these cells; for waves of unknown size it searches.
Extra chosen_extra(const std::string& name, const std::vector<Cell>& cells,
                   const std::vector<int>& concurrencies, const StepFitOptions& options) {
  if (name == "experts") {
    return {.experts = options.experts, .experts_per_token = options.experts_per_token};
  }
  if (options.rows_per_wave) return {.rows_per_wave = *options.rows_per_wave};
  return {.rows_per_wave = best_rows_per_wave(cells, concurrencies)};
}

Folds cross_validate(const std::string& name, const Cells& reduced, const StepFitOptions& options) {
  Folds folds;
  for (std::size_t left = 1; left + 1 < reduced.concurrencies.size(); ++left) {
    const int held = reduced.concurrencies[left];
    std::vector<Cell> train;
    std::vector<double> seen;
    for (const Cell& cell : reduced.cells) {
      cell.concurrency == held ? seen.push_back(cell.step_ms) : train.push_back(cell);
    }
    const Extra extra = chosen_extra(name, train, reduced.concurrencies, options);
    const auto line = fit_cells(train, {});
    const auto with = fit_cells(train, extra);
    if (!line || !extra.present() || !with) return {};
    const double truth = mean(seen);
    folds.line.push_back(predict(line->coefficients, {}, held) / truth - 1);
    folds.term.push_back(predict(with->coefficients, extra, held) / truth - 1);
  }
  return folds;
}

double root_mean_square(const std::vector<double>& errors) {
  double squares = 0;
  for (const double e : errors) squares += e * e;
  return std::sqrt(squares / static_cast<double>(errors.size()));
}

OptionalTerm try_term(const std::string& name, const Cells& reduced,
                      const StepFitOptions& options) {
  OptionalTerm term{.name = name};
  const Extra extra = chosen_extra(name, reduced.cells, reduced.concurrencies, options);
  const auto full = extra.present() ? fit_cells(reduced.cells, extra)
                                    : Expected<LeastSquares>(bad_input("no wave size fits"));
  const Folds folds = full ? cross_validate(name, reduced, options) : Folds{};
  if (folds.line.empty()) {
    term.reason = "cannot be told from the line at these concurrencies";
    return term;
  }
  if (extra.rows_per_wave > 0) term.rows_per_wave = extra.rows_per_wave;
  term.fixed_ms = full->coefficients[0];
  term.marginal_ms = full->coefficients[1];
  term.coefficient_ms = full->coefficients[2];
  term.line_error = root_mean_square(folds.line);
  term.term_error = root_mean_square(folds.term);
  std::vector<double> gains;
  for (std::size_t i = 0; i < folds.line.size(); ++i) {
    gains.push_back(folds.line[i] * folds.line[i] - folds.term[i] * folds.term[i]);
  }
  const double error = standard_deviation(gains) / std::sqrt(static_cast<double>(gains.size()));
  const bool pays = mean(gains) > error && term.term_error < k_error_share_kept * term.line_error;
  term.kept = pays && term.coefficient_ms > 0;
  term.reason = "on concurrencies left out the line errs by " + number(100 * term.line_error) +
                " %, with the term by " + number(100 * term.term_error) + " %";
  if (pays && !term.kept) term.reason += "; but its coefficient is negative, which is no cost";
  if (!pays) term.reason += ", too small a gain";
  return term;
}

std::vector<StepPoint> summarise(const Cells& reduced, const StepFit& fit) {
  std::vector<StepPoint> points;
  for (const int concurrency : reduced.concurrencies) {
    StepPoint point{.concurrency = concurrency};
    for (const Cell& cell : reduced.cells) {
      if (cell.concurrency != concurrency) continue;
      point.samples += cell.samples;
      point.sessions += 1;
      point.step_ms += cell.step_ms;
    }
    point.step_ms /= point.sessions;
    point.fitted_ms = fit.line_ms(concurrency);
    point.residual_ms = point.step_ms - point.fitted_ms;
    point.residual_share = point.residual_ms / point.fitted_ms;
    points.push_back(point);
  }
  return points;
}

void name_weak_data(const StepFit& fit, std::vector<std::string>& named) {
  if (fit.sessions < 2) {
    named.push_back(
        "one session only: intervals need the spread between sessions, so they are empty");
  } else if (fit.sessions < k_sessions_few) {
    named.push_back("only " + std::to_string(fit.sessions) +
                    " sessions: the intervals rest on Student's t with as few degrees of freedom");
  }
  if (fit.points.size() == 2) {
    named.push_back(
        "two concurrencies only: a line fits any two points, so residuals show nothing");
  }
  for (const StepPoint& point : fit.points) {
    if (point.sessions < fit.sessions) {
      named.push_back("concurrency " + std::to_string(point.concurrency) + " was measured in " +
                      std::to_string(point.sessions) + " of " + std::to_string(fit.sessions) +
                      " sessions");
    }
  }
}

void name_contradictions(const StepFit& fit, std::vector<std::string>& named) {
  if (fit.fixed_ms.estimate < 0) {
    named.push_back("fixed is " + number(fit.fixed_ms.estimate) +
                    " ms: a step cannot cost less than nothing, so the line does not hold towards "
                    "concurrency 0");
  }
  if (fit.marginal_ms.estimate <= 0) {
    named.push_back("marginal is " + number(fit.marginal_ms.estimate) +
                    " ms: steps do not get longer with concurrency in these data");
  }
  if (fit.r2 < k_r2_low) {
    named.push_back("R2 is " + number(fit.r2) + ": the line explains too little to project from");
  }
  for (std::size_t i = 1; i < fit.points.size(); ++i) {
    if (fit.points[i].step_ms < fit.points[i - 1].step_ms) {
      named.push_back("step time falls from " + number(fit.points[i - 1].step_ms) + " ms at " +
                      std::to_string(fit.points[i - 1].concurrency) + " to " +
                      number(fit.points[i].step_ms) + " ms at " +
                      std::to_string(fit.points[i].concurrency));
    }
  }
  for (const StepPoint& point : fit.points) {
    if (std::fabs(point.residual_share) <= k_residual_share_large) continue;
    named.push_back("the line is off by " + number(100 * point.residual_share) +
                    " % at concurrency " + std::to_string(point.concurrency) + ": " +
                    number(point.step_ms) + " ms measured, " + number(point.fitted_ms) +
                    " ms fitted");
  }
  for (const OptionalTerm& term : fit.terms) {
    if (term.kept) {
      named.push_back("the term \"" + term.name + "\" pays (" + term.reason +
                      "): fixed and marginal of the plain line mix it in");
    }
  }
}

}  // namespace

double distinct_experts(int experts, int experts_per_token, double tokens) {
  const double missed = 1 - static_cast<double>(experts_per_token) / experts;
  return experts * (1 - std::pow(missed, tokens));
}

Expected<StepFit> fit_step_time(std::span<const StepSample> samples,
                                const StepFitOptions& options) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].concurrency < 1 ||
        !(samples[i].step_ms > 0 && std::isfinite(samples[i].step_ms))) {
      return bad_input("sample " + std::to_string(i + 1) + ": concurrency " +
                       std::to_string(samples[i].concurrency) + ", step_ms " +
                       number(samples[i].step_ms) + "; both must be positive");
    }
  }
  const Cells reduced = reduce(samples);
  if (reduced.concurrencies.size() < 2) {
    return bad_input("a line needs samples at 2 or more concurrencies; these have " +
                     std::to_string(reduced.concurrencies.size()));
  }
  const Expected<LeastSquares> line = fit_cells(reduced.cells, {});
  if (!line) return line.error();
  StepFit fit;
  fit.fixed_ms.estimate = line->coefficients[0];
  fit.marginal_ms.estimate = line->coefficients[1];
  fit.r2 = line->r2;
  fit.level = options.level;
  fit.sessions = static_cast<int>(reduced.of_session.size());
  bootstrap_line(reduced, options, fit);
  fit.points = summarise(reduced, fit);
  for (const char* name : {"waves", "experts"}) {
    if (reduced.concurrencies.size() >= k_concurrencies_for_terms) {
      fit.terms.push_back(try_term(name, reduced, options));
    } else {
      OptionalTerm term{.name = name};
      term.reason = "not tried: needs " + std::to_string(k_concurrencies_for_terms) +
                    " concurrencies, there are " + std::to_string(reduced.concurrencies.size());
      fit.terms.push_back(term);
    }
  }
  name_weak_data(fit, fit.inconsistencies);
  name_contradictions(fit, fit.inconsistencies);
  return fit;
}

}  // namespace splitwave::stats
