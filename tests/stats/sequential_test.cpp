// The anytime-valid t-test: its formula against numerical integration, its error under peeking, its
// coverage at every look, its power.
#include "stats/sequential.h"

#include <gtest/gtest.h>

#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/quadrature/gauss_kronrod.hpp>
#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "base/random.h"
#include "stats/distributions.h"
#include "stats/quantiles.h"

namespace splitwave::stats {
namespace {

constexpr int k_trials = 1'000;
constexpr int k_looks = 200;

using Noise = std::function<double(Rng&)>;

double normal_noise(Rng& rng) { return rng.normal(); }

double laplace_noise(Rng& rng) {
  const double u = rng.uniform() - 0.5;
  return (u < 0 ? 1 : -1) * std::log(1 - 2 * std::fabs(u));
}

double spiky_noise(Rng& rng) { return rng.normal() * (rng.uniform() < 0.1 ? 8 : 1); }

// Log-normal with shape 0.3, centred: skewness 0.95, as times with a long right side have.
double skewed_noise(Rng& rng) { return std::exp(0.3 * rng.normal()) - std::exp(0.045); }

// In how many trials 0 is rejected at some look out of k_looks.
int rejections(const Noise& noise, double effect, int looks) {
  int rejected = 0;
  for (int trial = 0; trial < k_trials; ++trial) {
    Rng rng(31, trial);
    SequentialMean test({});
    for (int look = 0; look < looks && !test.rejected(); ++look) test.add(effect + noise(rng));
    rejected += test.rejected();
  }
  return rejected;
}

TEST(SequentialMean, EValueIsTheMixtureOfNonCentralTLikelihoodsOverTheNull) {
  const std::vector<double> values = {0.3, 1.1, -0.4, 0.9, 0.7, 1.6, 0.2};
  for (const double deviation : {0.5, 1.0, 2.0}) {
    SequentialMean test({.effect_prior_deviation = deviation});
    for (const double x : values) test.add(x);
    const double n = static_cast<double>(values.size());
    const double t = std::sqrt(n) * mean(values) / standard_deviation(values);
    const auto likelihood = [&](double effect) {
      const double prior = std::exp(-0.5 * effect * effect / (deviation * deviation)) /
                           (deviation * std::sqrt(2 * std::numbers::pi));
      const boost::math::non_central_t_distribution<> shifted(n - 1, effect * std::sqrt(n));
      return prior * pdf(shifted, t);
    };
    const double mixture = boost::math::quadrature::gauss_kronrod<double, 61>::integrate(
        likelihood, -8 * deviation, 8 * deviation, 12, 1e-10);
    const double null = pdf(boost::math::students_t_distribution<>(n - 1), t);
    EXPECT_NEAR(test.e_value(), mixture / null, 1e-6 * mixture / null) << deviation;
  }
}

TEST(SequentialMean, IntervalHoldsExactlyTheMeansThatItsEValueDoesNotReject) {
  Rng rng(5);
  SequentialMean test({.alpha = 0.05});
  for (int round = 0; round < 60; ++round) {
    test.add(0.02 + 0.01 * rng.normal());
    const Interval interval = test.interval();
    if (std::isinf(interval.low)) continue;
    EXPECT_NEAR(test.e_value(interval.low), 20, 1e-6) << round;
    EXPECT_NEAR(test.e_value(interval.high), 20, 1e-6) << round;
    EXPECT_LT(test.e_value(interval.estimate), 20);
  }
  EXPECT_FALSE(std::isinf(test.interval().low));
}

TEST(SequentialMean, PeekingAfterEveryRoundRejectsATrueNullInAtMostFivePercentOfTrials) {
  const struct {
    const char* name;
    Noise noise;
  } cases[] = {{"normal", normal_noise},
               {"laplace", laplace_noise},
               {"spiky", spiky_noise},
               {"skewed", skewed_noise}};
  for (const auto& c : cases) {
    const int rejected = rejections(c.noise, 0, k_looks);
    RecordProperty(std::string("rejected_of_1000_") + c.name, rejected);
    EXPECT_LE(rejected, 68) << c.name;
  }
}

// What the sequence protects from: Student's test at every look.
TEST(SequentialMean, PeekingAtStudentsTestWouldRejectInMoreThanTwentyPercentOfTrials) {
  std::vector<double> critical(k_looks + 1);
  for (int n = 2; n <= k_looks; ++n) critical[n] = student_t_quantile(0.975, n - 1);
  int rejected = 0;
  for (int trial = 0; trial < k_trials; ++trial) {
    Rng rng(31, trial);
    std::vector<double> values;
    bool ever = false;
    for (int n = 1; n <= k_looks && !ever; ++n) {
      values.push_back(rng.normal());
      if (n < 5) continue;
      const double t = std::sqrt(n) * mean(values) / standard_deviation(values);
      ever = std::fabs(t) > critical[n];
    }
    rejected += ever;
  }
  EXPECT_GT(rejected, 200);
}

TEST(SequentialMean, CoversTheTruthAtEveryLookInAtLeast95PercentOfTrials) {
  int always = 0;
  for (int trial = 0; trial < k_trials; ++trial) {
    Rng rng(41, trial);
    SequentialMean test({});
    bool covered = true;
    for (int look = 0; look < k_looks; ++look) {
      test.add(0.7 + rng.normal());
      covered = covered && test.interval().contains(0.7);
    }
    always += covered;
  }
  EXPECT_GE(always, 932);
}

TEST(SequentialMean, FindsATwoPercentEffectInOnePercentNoiseWithinThirtyRounds) {
  const int found = rejections([](Rng& rng) { return 0.01 * rng.normal(); }, 0.02, 30);
  RecordProperty("found_of_1000", found);
  EXPECT_GE(found, 990);
}

TEST(SequentialMean, SaysNothingBeforeTheSecondRoundAndKeepsARejection) {
  SequentialMean test({});
  EXPECT_EQ(test.e_value(), 1);
  test.add(5);
  EXPECT_EQ(test.e_value(), 1);
  EXPECT_TRUE(std::isinf(test.interval().high));
  for (int i = 0; i < 10; ++i) test.add(5 + 0.01 * i);
  ASSERT_TRUE(test.rejected());
  for (int i = 0; i < 50; ++i) test.add(i % 2 == 0 ? -40 : 40);
  EXPECT_LT(test.e_value(), 20);
  EXPECT_TRUE(test.rejected()) << "the anytime p-value is the smallest so far";
}

}  // namespace
}  // namespace splitwave::stats
