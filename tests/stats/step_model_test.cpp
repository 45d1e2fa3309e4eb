// The step-time fit: planted parameters, coverage over sessions, optional terms that pay and that
// do not, and what it names.
#include "stats/step_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/random.h"
#include "stats/least_squares.h"

namespace splitwave::stats {
namespace {

const std::vector<int> k_grid = {1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96};

// Sessions that differ by a factor (1 %) and in slope (0.5 %), samples that scatter by 2 %.
std::vector<StepSample> plant(Rng& rng, int sessions, const std::function<double(int)>& step_ms,
                              const std::vector<int>& grid = k_grid) {
  std::vector<StepSample> samples;
  for (int session = 0; session < sessions; ++session) {
    const double factor = 1 + 0.01 * rng.normal();
    const double slope = 0.005 * rng.normal();
    for (const int concurrency : grid) {
      for (int i = 0; i < 5; ++i) {
        const double value = step_ms(concurrency) * (factor + slope * concurrency / 96.0) *
                             (1 + 0.02 * rng.normal());
        samples.push_back({"s" + std::to_string(session), concurrency, value});
      }
    }
  }
  return samples;
}

double line(int concurrency) { return 18 + 1.05 * concurrency; }

TEST(LeastSquares, SolvesAnExactSystemAndReportsItsFit) {
  const std::vector<std::vector<double>> columns = {{1, 1, 1, 1}, {0, 1, 2, 3}};
  const std::vector<double> y = {2, 5, 8, 11};
  const std::vector<double> weights = {1, 10, 0.1, 3};
  const auto fit = weighted_least_squares(columns, y, weights);
  ASSERT_TRUE(fit.ok());
  EXPECT_NEAR(fit->coefficients[0], 2, 1e-12);
  EXPECT_NEAR(fit->coefficients[1], 3, 1e-12);
  EXPECT_NEAR(fit->r2, 1, 1e-12);
}

TEST(LeastSquares, WeightsPullTheLineAsTheNormalEquationsSay) {
  // Constant only: the weighted mean.
  const std::vector<std::vector<double>> columns = {{1, 1}};
  const std::vector<double> y = {0, 10};
  const auto fit = weighted_least_squares(columns, y, std::vector<double>{3, 1});
  ASSERT_TRUE(fit.ok());
  EXPECT_NEAR(fit->coefficients[0], 2.5, 1e-12);
}

TEST(LeastSquares, RefusesColumnsThatDependOnEachOther) {
  const std::vector<std::vector<double>> columns = {{1, 1, 1}, {2, 2, 2}};
  const std::vector<double> y = {1, 2, 3};
  EXPECT_FALSE(weighted_least_squares(columns, y, std::vector<double>(3, 1.0)).ok());
  const std::vector<std::vector<double>> wide = {{1}, {2}};
  EXPECT_FALSE(weighted_least_squares(wide, std::vector<double>{1}, std::vector<double>{1}).ok());
}

TEST(StepFit, RecoversAnExactLineWithIntervalsOfNoWidth) {
  std::vector<StepSample> samples;
  for (const char* session : {"a", "b", "c"}) {
    for (const int concurrency : k_grid)
      samples.push_back({session, concurrency, line(concurrency)});
  }
  const auto fit = fit_step_time(samples, {});
  ASSERT_TRUE(fit.ok());
  EXPECT_NEAR(fit->fixed_ms.estimate, 18, 1e-9);
  EXPECT_NEAR(fit->marginal_ms.estimate, 1.05, 1e-11);
  EXPECT_NEAR(fit->fixed_ms.high - fit->fixed_ms.low, 0, 1e-9);
  EXPECT_NEAR(fit->r2, 1, 1e-12);
}

TEST(StepFit, IntervalsOverSessionsCoverThePlantedParameters) {
  int fixed = 0;
  int marginal = 0;
  constexpr int trials = 300;
  for (int trial = 0; trial < trials; ++trial) {
    Rng rng(71, trial);
    const auto samples = plant(rng, 10, line, {1, 8, 32, 64, 96});
    StepFitOptions options{.resamples = 300, .seed = static_cast<std::uint64_t>(trial)};
    options.rows_per_wave = 40;
    const auto fit = fit_step_time(samples, options);
    ASSERT_TRUE(fit.ok());
    fixed += fit->fixed_ms.contains(18);
    marginal += fit->marginal_ms.contains(1.05);
  }
  RecordProperty("fixed_covered_of_300", fixed);
  RecordProperty("marginal_covered_of_300", marginal);
  EXPECT_GE(fixed, 276);  // 92 %
  EXPECT_GE(marginal, 276);
  EXPECT_LE(fixed, 295);  // 98.3 %
  EXPECT_LE(marginal, 295);
}

TEST(StepFit, ResamplingSamplesInsteadOfSessionsWouldBeTooNarrow) {
  // The same data with every sample called its own session: the sessions' shared error is lost.
  int covered = 0;
  for (int trial = 0; trial < 100; ++trial) {
    Rng rng(72, trial);
    auto samples = plant(rng, 6, line, {1, 8, 32, 64, 96});
    for (std::size_t i = 0; i < samples.size(); ++i) {
      samples[i].session = std::to_string(i / 25) + "/" + std::to_string(i % 5);
    }
    StepFitOptions options{.resamples = 200};
    options.rows_per_wave = 40;
    const auto fit = fit_step_time(samples, options);
    ASSERT_TRUE(fit.ok());
    covered += fit->marginal_ms.contains(1.05);
  }
  EXPECT_LT(covered, 92);
}

TEST(StepFit, KeepsWavesWhereTheDataStepAndFindsTheirSize) {
  int kept = 0;
  for (int trial = 0; trial < 10; ++trial) {
    Rng rng(73, trial);
    const auto samples = plant(rng, 6, [](int b) { return 10 + 0.2 * b + 9 * ((b + 19) / 20); });
    const auto fit = fit_step_time(samples, {.resamples = 100});
    ASSERT_TRUE(fit.ok());
    const OptionalTerm& waves = fit->terms[0];
    ASSERT_EQ(waves.name, "waves");
    kept += waves.kept;
    if (!waves.kept) continue;
    ASSERT_TRUE(waves.rows_per_wave.has_value());
    EXPECT_LT(waves.term_error, waves.line_error);
    // The grid cannot tell all sizes apart: any that puts its points into the same waves will do.
    for (const int b : k_grid) {
      EXPECT_EQ((b + *waves.rows_per_wave - 1) / *waves.rows_per_wave, (b + 19) / 20) << b;
    }
  }
  EXPECT_GE(kept, 9);
}

TEST(StepFit, KeepsDistinctExpertsWhereTheCurveBends) {
  int kept = 0;
  for (int trial = 0; trial < 10; ++trial) {
    Rng rng(74, trial);
    const auto samples =
        plant(rng, 6, [](int b) { return 8 + 0.4 * b + 0.15 * distinct_experts(256, 6, b); });
    const auto fit = fit_step_time(samples, {.resamples = 100});
    ASSERT_TRUE(fit.ok());
    const OptionalTerm& experts = fit->terms[1];
    kept += experts.kept;
    if (experts.kept) {
      EXPECT_NEAR(experts.coefficient_ms, 0.15, 0.05);
    }
  }
  EXPECT_GE(kept, 9);
}

TEST(StepFit, KeepsNoTermOnAStraightLineInMostTrials) {
  int kept = 0;
  for (int trial = 0; trial < 30; ++trial) {
    Rng rng(75, trial);
    const auto fit = fit_step_time(plant(rng, 6, line), {.resamples = 50});
    ASSERT_TRUE(fit.ok());
    kept += std::any_of(fit->terms.begin(), fit->terms.end(),
                        [](const OptionalTerm& term) { return term.kept; });
  }
  EXPECT_LE(kept, 2);
}

TEST(StepFit, DistinctExpertsMatchesTheKnownValues) {
  EXPECT_NEAR(distinct_experts(256, 6, 1), 6, 1e-12);
  EXPECT_NEAR(distinct_experts(128, 8, 16), 82.4, 0.05);
  EXPECT_NEAR(distinct_experts(256, 6, 96), 230, 0.5);
}

bool names(const StepFit& fit, const std::string& words) {
  return std::any_of(fit.inconsistencies.begin(), fit.inconsistencies.end(),
                     [&](const std::string& s) { return s.find(words) != std::string::npos; });
}

TEST(StepFit, NamesOneSessionFewSessionsAndMissingCells) {
  const auto one = fit_step_time(
      std::vector<StepSample>{{"a", 1, 19.05}, {"a", 64, 85.2}, {"a", 96, 118.8}}, {});
  ASSERT_TRUE(one.ok());
  EXPECT_TRUE(names(*one, "one session only"));
  EXPECT_TRUE(std::isinf(one->fixed_ms.low));
  const auto gaps = fit_step_time(
      std::vector<StepSample>{{"a", 1, 19}, {"a", 64, 85}, {"b", 1, 19.2}, {"b", 96, 119}}, {});
  ASSERT_TRUE(gaps.ok());
  EXPECT_TRUE(names(*gaps, "only 2 sessions"));
  EXPECT_TRUE(names(*gaps, "concurrency 64 was measured in 1 of 2 sessions"));
}

TEST(StepFit, NamesANegativeFixedCostAFallingStepAndALargeResidual) {
  const auto fit = fit_step_time(std::vector<StepSample>{{"a", 10, 5},
                                                         {"a", 20, 30},
                                                         {"a", 30, 25},
                                                         {"b", 10, 5},
                                                         {"b", 20, 30},
                                                         {"b", 30, 25},
                                                         {"a", 90, 99},
                                                         {"b", 90, 99}},
                                 {});
  ASSERT_TRUE(fit.ok());
  EXPECT_TRUE(names(*fit, "fixed is -"));
  EXPECT_TRUE(names(*fit, "step time falls from 30 ms at 20 to 25 ms at 30"));
  EXPECT_TRUE(names(*fit, "the line is off by"));
}

TEST(StepFit, RefusesOneConcurrencyAndSamplesThatAreNotPositive) {
  const auto one = fit_step_time(std::vector<StepSample>{{"a", 8, 20}, {"b", 8, 21}}, {});
  ASSERT_FALSE(one.ok());
  EXPECT_EQ(one.error().kind, ErrorKind::bad_input);
  EXPECT_FALSE(fit_step_time({}, {}).ok());
  const auto zero = fit_step_time(std::vector<StepSample>{{"a", 8, 20}, {"a", 9, 0}}, {});
  ASSERT_FALSE(zero.ok());
  EXPECT_NE(zero.error().message.find("sample 2"), std::string::npos);
}

}  // namespace
}  // namespace splitwave::stats
