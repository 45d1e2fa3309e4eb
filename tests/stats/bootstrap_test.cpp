// The bootstrap over rounds against known truths: coverage, false positives, power, the pairing of
// interval and p-value. Seeds are fixed, so each figure is the same on every run.
#include "stats/bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "stats/effect.h"
#include "stats/quantiles.h"

namespace splitwave::stats {
namespace {

constexpr int k_trials = 1'000;
constexpr int k_rounds = 15;

// Paired log ratios of one experiment: an effect, noise of 1 % a round, one round in ten hit by
// other work on the machine.
std::vector<double> rounds_with(Rng& rng, int rounds, double effect) {
  std::vector<double> values(rounds);
  for (double& value : values) {
    const double spread = rng.uniform() < 0.1 ? 0.05 : 0.01;
    value = std::log1p(effect) + spread * rng.normal();
  }
  return values;
}

int covered_of(int trials, int rounds, const BootstrapOptions& base) {
  int covered = 0;
  for (int trial = 0; trial < trials; ++trial) {
    Rng rng(2024, trial);
    BootstrapOptions options = base;
    options.seed = static_cast<std::uint64_t>(trial);
    const auto values = rounds_with(rng, rounds, 0.03);
    covered += bootstrap_location(values, options).interval.contains(std::log1p(0.03));
  }
  return covered;
}

TEST(Bootstrap, DefaultIntervalCoversTheTruthIn93To97PercentOfTrials) {
  for (const int rounds : {8, k_rounds, 40}) {
    const int covered = covered_of(k_trials, rounds, {});
    RecordProperty("covered_of_1000_at_" + std::to_string(rounds) + "_rounds", covered);
    EXPECT_GE(covered, 930) << rounds << " rounds";
    EXPECT_LE(covered, 970) << rounds << " rounds";
  }
}

TEST(Bootstrap, ExpandedPercentileCoversAtLeast93PercentOverFewClusters) {
  const BootstrapOptions options{.location = Location::mean,
                                 .method = IntervalMethod::expanded_percentile};
  const int covered = covered_of(k_trials, 10, options);
  EXPECT_GE(covered, 925);
  EXPECT_LE(covered, 975);
}

// The reason for the default: if this ever passes 93 %, the header's table is wrong.
TEST(Bootstrap, PercentileOfTheMeanIsTooNarrowOverFewRounds) {
  const BootstrapOptions options{.location = Location::mean, .method = IntervalMethod::percentile};
  EXPECT_LT(covered_of(k_trials, 8, options), 930);
}

TEST(Bootstrap, AnAATestRejectsAtMost68Of1000Times) {
  int rejected = 0;
  int excluded = 0;
  for (int trial = 0; trial < k_trials; ++trial) {
    Rng rng(7, trial);
    const auto result = bootstrap_location(rounds_with(rng, k_rounds, 0),
                                           {.seed = static_cast<std::uint64_t>(trial)});
    rejected += result.p_value <= 0.05;
    excluded += !result.interval.contains(0);
  }
  RecordProperty("rejected_of_1000", rejected);
  EXPECT_LE(rejected, 68);
  EXPECT_LE(excluded, 68);
  EXPECT_GE(rejected, 25) << "a test that hardly ever rejects has no power either";
}

TEST(Bootstrap, PlantedTwoPercentEffectIsFoundInAtLeast95PercentOfTrials) {
  int found = 0;
  int wrong_side = 0;
  for (int trial = 0; trial < k_trials; ++trial) {
    Rng rng(11, trial);
    const auto result = bootstrap_location(rounds_with(rng, k_rounds, 0.02),
                                           {.seed = static_cast<std::uint64_t>(trial)});
    const Effect effect = judge_effect(result.interval, result.p_value, 0.05, 0.005);
    found += effect == Effect::faster;
    wrong_side += effect == Effect::slower;
  }
  RecordProperty("found_of_1000", found);
  EXPECT_GE(found, 950);
  EXPECT_EQ(wrong_side, 0);
}

TEST(Bootstrap, PValueAndIntervalAgreeOnZeroForEveryMethod) {
  for (const auto location : {Location::trimmed_mean, Location::mean}) {
    for (const auto method : {IntervalMethod::studentized, IntervalMethod::percentile,
                              IntervalMethod::expanded_percentile, IntervalMethod::bca}) {
      int near_miss = 0;
      for (int trial = 0; trial < 80; ++trial) {
        Rng rng(3, trial);
        const auto values = rounds_with(rng, 20, 0.005);
        const auto result =
            bootstrap_location(values, {.location = location, .method = method, .seed = 5});
        const bool excluded = !result.interval.contains(0);
        if (excluded != (result.p_value <= 0.05)) {
          ++near_miss;
          EXPECT_NEAR(result.p_value, 0.05, 0.006);
        }
      }
      EXPECT_LE(near_miss, 3);
    }
  }
}

TEST(Bootstrap, SameSeedGivesTheSameBitsAndAnotherSeedDoesNot) {
  Rng rng(1);
  const auto values = rounds_with(rng, 12, 0.01);
  const auto a = bootstrap_location(values, {.seed = 9});
  const auto b = bootstrap_location(values, {.seed = 9});
  const auto c = bootstrap_location(values, {.seed = 10});
  EXPECT_EQ(a.interval.low, b.interval.low);
  EXPECT_EQ(a.interval.high, b.interval.high);
  EXPECT_NE(a.interval.low, c.interval.low);
}

TEST(Bootstrap, EstimateIsTheLocationAndStandardErrorOfTheMeanIsTheTextbookOne) {
  const std::vector<double> values = {1, 2, 3, 4, 100};
  const auto mean_result = bootstrap_location(values, {.location = Location::mean});
  EXPECT_DOUBLE_EQ(mean_result.interval.estimate, 22);
  EXPECT_NEAR(mean_result.standard_error, standard_deviation(values) / std::sqrt(5.0), 1e-12);
  const auto trimmed = bootstrap_location(values, {});
  EXPECT_DOUBLE_EQ(trimmed.interval.estimate, trimmed_mean(values, k_trimmed_share));
  // Yuen's form by hand: Winsorised to 2 2 3 4 4, squares 4, kept 3: sqrt(4 / (3 * 2)).
  EXPECT_NEAR(trimmed.standard_error, std::sqrt(4.0 / 6.0), 1e-12);
}

TEST(Bootstrap, OneRoundOrNoneBoundsNothing) {
  const std::vector<double> one = {0.5};
  for (const auto& result : {bootstrap_location({}, {}), bootstrap_location(one, {})}) {
    EXPECT_TRUE(std::isinf(result.interval.low) && std::isinf(result.interval.high));
    EXPECT_EQ(result.p_value, 1);
    EXPECT_EQ(judge_effect(result.interval, result.p_value, 0.05, 0.01), Effect::undecided);
  }
}

TEST(Bootstrap, EqualRoundsAreCertainAndATrimOfEqualValuesFallsBackToTheMean) {
  const std::vector<double> equal(6, 0.25);
  const auto result = bootstrap_location(equal, {});
  EXPECT_EQ(result.interval.low, 0.25);
  EXPECT_EQ(result.interval.high, 0.25);
  EXPECT_LT(result.p_value, 0.01);
  const std::vector<double> one_differs = {0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  const auto wide = bootstrap_location(one_differs, {});
  EXPECT_DOUBLE_EQ(wide.interval.estimate, 0.1);
  EXPECT_GT(wide.standard_error, 0);
}

TEST(Bootstrap, PairedLogRatiosArePositiveWhereTheArmIsFaster) {
  const std::vector<double> incumbent = {2, 1};
  const std::vector<double> arm = {1, 2};
  const auto ratios = paired_log_ratios(incumbent, arm);
  EXPECT_DOUBLE_EQ(ratios[0], std::log(2.0));
  EXPECT_DOUBLE_EQ(ratios[1], -std::log(2.0));
}

TEST(MixScore, IsTheWeightedSumOfLogRatiosWithScaledWeights) {
  const std::vector<double> fast(10, std::log(1.1));
  const std::vector<double> slow(10, std::log(0.9));
  const std::vector<MixPoint> points = {{3, fast}, {1, slow}};
  const auto score = mix_score(points, {});
  EXPECT_NEAR(score.interval.estimate, 0.75 * std::log(1.1) + 0.25 * std::log(0.9), 1e-15);
}

TEST(MixScore, KeepsWhatThePointsOfARoundShare) {
  // Two points whose noise is the same, with opposite weight of effect: their sum is noisy. If
  // rounds were drawn apart for each point, the interval would be narrower by sqrt(2).
  Rng rng(4);
  std::vector<double> shared(40);
  for (double& x : shared) x = 0.01 * rng.normal();
  const std::vector<MixPoint> twice = {{0.5, shared}, {0.5, shared}};
  const std::vector<MixPoint> once = {{1, shared}};
  EXPECT_DOUBLE_EQ(mix_score(twice, {}).standard_error, mix_score(once, {}).standard_error);
}

TEST(MixScoreDeathTest, AbortsOnPointsWithDifferentRounds) {
  const std::vector<double> a(3, 0.1);
  const std::vector<double> b(4, 0.1);
  const std::vector<MixPoint> points = {{1, a}, {1, b}};
  EXPECT_DEATH((void)mix_score(points, {}), "different rounds");
}

TEST(Clusters, ReplicatesOfTheMeanMatchTheClosedFormSpread) {
  const std::vector<double> x = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto replicates = resample_clusters(8, 4'000, 3, [&](std::span<const int> picks) {
    double sum = 0;
    for (const int pick : picks) sum += x[pick];
    return sum / 8;
  });
  EXPECT_NEAR(mean(replicates), 4.5, 0.05);
  EXPECT_NEAR(standard_deviation(replicates), std::sqrt(5.25 / 8), 0.03);
}

}  // namespace
}  // namespace splitwave::stats
