// Holm's adjustment against examples worked by hand, and its error rate.
#include "stats/multiple.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace splitwave::stats {
namespace {

void expect_adjusted(const std::vector<double>& p, const std::vector<double>& want) {
  const auto got = holm_adjust(p);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << i;
}

TEST(Holm, MultipliesTheSmallestByAllAndEachNextByOneLess) {
  // Sorted 0.005 * 4, 0.01 * 3, 0.03 * 2, 0.04 * 1: 0.02, 0.03, 0.06, max(0.04, 0.06).
  expect_adjusted({0.01, 0.04, 0.03, 0.005}, {0.03, 0.06, 0.06, 0.02});
}

TEST(Holm, ALaterStepNeverFallsBelowAnEarlierOne) {
  // 0.02 * 3 = 0.06; 0.021 * 2 = 0.042 is raised to 0.06; 0.9 stays.
  expect_adjusted({0.02, 0.021, 0.9}, {0.06, 0.06, 0.9});
}

TEST(Holm, CapsAtOneKeepsTiesEqualAndLeavesASingleTestAlone) {
  expect_adjusted({0.6, 0.6, 0.6}, {1, 1, 1});
  expect_adjusted({0.02, 0.02}, {0.04, 0.04});
  expect_adjusted({0.037}, {0.037});
  expect_adjusted({}, {});
}

TEST(Holm, FalselyRejectsAnythingInAtMostFivePercentOfFamilies) {
  int families_with_rejection = 0;
  for (int trial = 0; trial < 2'000; ++trial) {
    Rng rng(21, trial);
    std::vector<double> p(12);
    for (double& x : p) x = rng.uniform();
    const auto adjusted = holm_adjust(p);
    families_with_rejection += *std::min_element(adjusted.begin(), adjusted.end()) <= 0.05;
  }
  EXPECT_LE(families_with_rejection, 126);  // 100 expected, 2.7 standard deviations
  EXPECT_GE(families_with_rejection, 70);
}

TEST(SimultaneousLevel, SplitsTheErrorEvenly) {
  EXPECT_DOUBLE_EQ(simultaneous_level(0.95, 10), 0.995);
  EXPECT_DOUBLE_EQ(simultaneous_level(0.95, 1), 0.95);
}

TEST(ResamplesFor, IsEnoughForHolmsFirstStepToReject) {
  const int resamples = resamples_for(0.05, 8);
  EXPECT_LE(2.0 / (resamples + 1), 0.05 / 8);
  EXPECT_GT(2.0 / (resamples - 1), 0.05 / 8);
}

}  // namespace
}  // namespace splitwave::stats
