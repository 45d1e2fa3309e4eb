// Drift and its plants: a clock that sinks, a slow arm, and what pairing is for.
#include "stats/drift.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "stats/bootstrap.h"
#include "stats/effect.h"
#include "stats/quantiles.h"

namespace splitwave::stats {
namespace {

constexpr int k_rounds = 30;

TEST(ClockBand, DropsRoundsOffTheMedianByMoreThanTheTolerance) {
  const std::vector<double> mhz = {1980, 1975, 1500, 1985, std::nan(""), 1980, 2300};
  const ClockBand band = clock_band(mhz, 0.05);
  EXPECT_DOUBLE_EQ(band.reference, 1980);
  EXPECT_EQ(band.outside, (std::vector<int>{2, 4, 6}));
}

TEST(ClockBand, AGivenReferenceFindsARunThatWasThrottledThroughout) {
  const std::vector<double> mhz(10, 1400);
  EXPECT_TRUE(clock_band(mhz, 0.05).outside.empty());
  EXPECT_EQ(clock_band(mhz, 0.05, 1980).outside.size(), 10U);
}

TEST(Trend, ExactPValueOfAPerfectOrderIsTwoInFactorial) {
  const std::vector<double> rising = {1, 2, 3, 4, 5, 6};
  EXPECT_NEAR(trend_over_rounds(rising).p_value, 2.0 / 720, 1e-12);
  EXPECT_DOUBLE_EQ(trend_over_rounds(rising).slope_per_round, 1);
  EXPECT_NEAR(trend_over_rounds(rising).total_share, 5 / 3.5, 1e-12);
}

TEST(Trend, OneOutlierMovesTheSlopeLittle) {
  std::vector<double> values(21, 0.0);
  for (int i = 0; i < 21; ++i) values[i] = 100 + 0.5 * i;
  values[10] = 10'000;
  EXPECT_NEAR(trend_over_rounds(values).slope_per_round, 0.5, 0.05);
}

TEST(Trend, TiesUseTheCorrectedVariance) {
  const std::vector<double> flat(20, 7.0);
  EXPECT_EQ(trend_over_rounds(flat).p_value, 1);
  std::vector<double> steps(20);
  for (int i = 0; i < 20; ++i) steps[i] = i / 5;
  EXPECT_LT(trend_over_rounds(steps).p_value, 1e-4);
}

TEST(Trend, FalselyFindsADriftInAtMostOnePercentOfStillRuns) {
  int found = 0;
  for (int trial = 0; trial < 1'000; ++trial) {
    Rng rng(51, trial);
    std::vector<double> times(k_rounds);
    for (double& t : times) t = 100 + 5 * rng.normal();
    found += has_drifted(trend_over_rounds(times), {.alpha = 0.01, .total_share = 0});
  }
  EXPECT_LE(found, 19);
  EXPECT_GE(found, 2);
}

// One session: both arms' times by round, `slowdown` planted in the arm, the clock losing `drift`
// of its speed from the first round to the last.
struct Session {
  std::vector<double> incumbent;
  std::vector<double> arm;
  std::vector<double> clock_mhz;
};

Session session_with(Rng& rng, double slowdown, double drift) {
  Session s;
  for (int round = 0; round < k_rounds; ++round) {
    const double speed = 1 - drift * round / (k_rounds - 1);
    const double shared = 100 / speed * (1 + 0.01 * rng.normal());
    s.incumbent.push_back(shared * (1 + 0.003 * rng.normal()));
    s.arm.push_back(shared * (1 + slowdown) * (1 + 0.003 * rng.normal()));
    s.clock_mhz.push_back(1980 * speed * (1 + 0.001 * rng.normal()));
  }
  return s;
}

TEST(Plants, ADriftingClockIsCaughtInTheReadingsAndInTheTimes) {
  for (int trial = 0; trial < 200; ++trial) {
    Rng rng(61, trial);
    const Session s = session_with(rng, 0, 0.08);
    ASSERT_TRUE(has_drifted(trend_over_rounds(s.clock_mhz), {})) << trial;
    ASSERT_LT(trend_over_rounds(s.clock_mhz).slope_per_round, 0);
    ASSERT_TRUE(has_drifted(trend_over_rounds(s.incumbent), {})) << trial;
    ASSERT_FALSE(clock_band(s.clock_mhz, 0.02).outside.empty()) << trial;
  }
}

TEST(Plants, AStillClockIsNotCaught) {
  for (int trial = 0; trial < 200; ++trial) {
    Rng rng(62, trial);
    const Session s = session_with(rng, 0, 0);
    ASSERT_FALSE(has_drifted(trend_over_rounds(s.clock_mhz), {})) << trial;
    ASSERT_TRUE(clock_band(s.clock_mhz, 0.02).outside.empty()) << trial;
  }
}

TEST(Plants, ASlowArmIsCaughtThroughADrift) {
  int caught = 0;
  for (int trial = 0; trial < 200; ++trial) {
    Rng rng(63, trial);
    const Session s = session_with(rng, 0.01, 0.08);
    const auto result = bootstrap_location(paired_log_ratios(s.incumbent, s.arm), {});
    caught += judge_effect(result.interval, result.p_value, 0.05, 0.003) == Effect::slower;
    ASSERT_FALSE(rules_out_regression(result.interval, 0.005));
  }
  EXPECT_GE(caught, 198);
}

TEST(Plants, ADriftThatFoolsArmsRunOneAfterTheOtherDoesNotFoolPairs) {
  int fooled_pairs = 0;
  int fooled_blocks = 0;
  for (int trial = 0; trial < 200; ++trial) {
    Rng rng(64, trial);
    const Session s = session_with(rng, 0, 0.08);
    const auto pairs = paired_log_ratios(s.incumbent, s.arm);
    fooled_pairs += bootstrap_location(pairs, {}).p_value <= 0.05;
    // The incumbent in the first half of the session, the arm in the second.
    std::vector<double> blocks;
    for (int i = 0; i < k_rounds / 2; ++i) {
      blocks.push_back(std::log(s.incumbent[i] / s.arm[i + k_rounds / 2]));
    }
    fooled_blocks += bootstrap_location(blocks, {}).p_value <= 0.05;
  }
  EXPECT_LE(fooled_pairs, 20);
  EXPECT_GE(fooled_blocks, 195);
}

TEST(Plants, AnAASpreadWithinTheMinimumEffectIsTheSame) {
  int same = 0;
  for (int trial = 0; trial < 200; ++trial) {
    Rng rng(65, trial);
    const Session s = session_with(rng, 0, 0.08);
    const auto result = bootstrap_location(paired_log_ratios(s.incumbent, s.arm), {});
    same += judge_effect(result.interval, result.p_value, 0.05, 0.01) == Effect::same;
  }
  EXPECT_GE(same, 198);
}

TEST(JudgeEffect, StartsUndecidedAndMovesOnlyOnEvidence) {
  EXPECT_EQ(judge_effect({-0.05, 0.01, 0.07}, 0.5, 0.05, 0.01), Effect::undecided);
  EXPECT_EQ(judge_effect({0.002, 0.02, 0.04}, 0.01, 0.05, 0.01), Effect::faster);
  EXPECT_EQ(judge_effect({-0.04, -0.02, -0.002}, 0.01, 0.05, 0.01), Effect::slower);
  EXPECT_EQ(judge_effect({-0.004, 0.001, 0.006}, 0.7, 0.05, 0.01), Effect::same);
  // Real but too small to matter.
  EXPECT_EQ(judge_effect({0.002, 0.004, 0.006}, 0.001, 0.05, 0.01), Effect::same);
  // Holm took the point back: the interval alone does not decide.
  EXPECT_EQ(judge_effect({0.002, 0.02, 0.04}, 0.08, 0.05, 0.01), Effect::undecided);
  EXPECT_STREQ(effect_name(Effect::undecided), "UNDECIDED");
}

}  // namespace
}  // namespace splitwave::stats
