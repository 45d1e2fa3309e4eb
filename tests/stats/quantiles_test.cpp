// Quantiles by their definition, moments by hand.
#include "stats/quantiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace splitwave::stats {
namespace {

TEST(Quantiles, AreType7LinearBetweenOrderStatistics) {
  const std::vector<double> sample = {40, 10, 30, 20};  // h = 3 p
  EXPECT_DOUBLE_EQ(quantile(sample, 0), 10);
  EXPECT_DOUBLE_EQ(quantile(sample, 1), 40);
  EXPECT_DOUBLE_EQ(median(sample), 25);
  EXPECT_DOUBLE_EQ(p90(sample), 37);
  EXPECT_DOUBLE_EQ(quantile(sample, 1.0 / 3), 20);
}

TEST(Quantiles, AnInfiniteNeighbourWithoutWeightDoesNotBecomeNaN) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> sample = {1, 2, infinity};
  EXPECT_EQ(quantile(sample, 0.5), 2);
  EXPECT_EQ(quantile(sample, 0.75), infinity);
  const std::vector<double> both = {-infinity, -infinity, infinity};
  EXPECT_EQ(quantile(both, 0.25), -infinity);
}

TEST(Quantiles, MomentsAndRobustSpreadByHand) {
  const std::vector<double> sample = {2, 4, 4, 4, 5, 5, 7, 9};
  EXPECT_DOUBLE_EQ(mean(sample), 5);
  EXPECT_DOUBLE_EQ(standard_deviation(sample), std::sqrt(32.0 / 7));
  EXPECT_DOUBLE_EQ(robust_deviation(sample), 1.4826 * 0.5);  // median 4.5; distances' median 0.5
  EXPECT_EQ(standard_deviation(std::vector<double>{3}), 0);
}

TEST(Quantiles, TrimmedMeanCutsTheFloorOfTheShareAtEachEnd) {
  const std::vector<double> sample = {-1000, 1, 2, 3, 4, 5, 6, 7, 1000};  // floor(0.2 * 9) = 1
  EXPECT_DOUBLE_EQ(trimmed_mean(sample, 0.2), 4);
  EXPECT_DOUBLE_EQ(trimmed_mean(sample, 0), 28.0 / 9);
}

TEST(QuantilesDeathTest, AbortOnAnEmptySampleAndOnNaN) {
  EXPECT_DEATH((void)median({}), "empty");
  const std::vector<double> sample = {1, std::nan("")};
  EXPECT_DEATH((void)median(sample), "NaN");
}

}  // namespace
}  // namespace splitwave::stats
