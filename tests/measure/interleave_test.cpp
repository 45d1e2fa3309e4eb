// The order of measurements and the loop over rounds.
#include "measure/interleave.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

namespace splitwave::measure {
namespace {

using Key = std::tuple<int, int, bool>;

TEST(RoundOrder, VisitsEveryPointAndArmExactlyTwiceOncePerDirection) {
  const InterleaveOptions options{.arms = 3, .points = 4, .seed = 5};
  for (int round = 0; round < 6; ++round) {
    std::multiset<Key> seen;
    for (const Visit& v : round_order(options, round)) seen.insert({v.point, v.arm, v.mirrored});
    EXPECT_EQ(seen.size(), 24U);
    EXPECT_EQ(std::set<Key>(seen.begin(), seen.end()).size(), 24U);
  }
}

TEST(RoundOrder, IsAPalindromeOfArmsAtEveryPoint) {
  const InterleaveOptions options{.arms = 3, .points = 4, .seed = 5};
  for (int round = 0; round < 6; ++round) {
    const auto order = round_order(options, round);
    for (std::size_t at = 0; at < order.size(); at += 6) {
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(order[at + i].arm, order[at + 5 - i].arm);
        EXPECT_EQ(order[at + i].point, order[at].point);
        EXPECT_FALSE(order[at + i].mirrored);
        EXPECT_TRUE(order[at + 5 - i].mirrored);
      }
    }
  }
}

TEST(RoundOrder, EveryPairOfRoundsGivesEachOfTwoArmsTheFirstPlaceOnce) {
  const InterleaveOptions options{.arms = 2, .points = 3, .seed = 8};
  for (int round = 0; round < 20; round += 2) {
    const auto even = round_order(options, round);
    const auto odd = round_order(options, round + 1);
    for (std::size_t at = 0; at < even.size(); at += 4) {
      const std::size_t mirror = even.size() - 4 - at;
      EXPECT_EQ(even[at].point, odd[mirror].point);
      EXPECT_NE(even[at].arm, odd[mirror].arm);
    }
  }
}

TEST(RoundOrder, DiffersBetweenSeedsAndReplaysFromOne) {
  const auto arms_of = [](std::uint64_t seed) {
    std::vector<int> arms;
    for (int round = 0; round < 8; ++round) {
      for (const Visit& v : round_order({.arms = 2, .points = 3, .seed = seed}, round)) {
        arms.push_back(v.point * 2 + v.arm);
      }
    }
    return arms;
  };
  EXPECT_EQ(arms_of(1), arms_of(1));
  EXPECT_NE(arms_of(1), arms_of(2));
}

TEST(MeasureInterleaved, ALinearDriftCancelsInEveryRoundsMeans) {
  const InterleaveOptions options{.arms = 3, .points = 1, .rounds = 10, .seed = 3};
  double clock = 0;
  const auto result = measure_interleaved(
      options, {.measure = [&](const Visit&) -> Expected<double> { return 100 + (clock += 1); }});
  ASSERT_EQ(result.reason, StopReason::all_rounds);
  for (int round = 0; round < 10; ++round) {
    const double reference = result.table.at(round, 0, 0).mean();
    EXPECT_DOUBLE_EQ(result.table.at(round, 0, 1).mean(), reference);
    EXPECT_DOUBLE_EQ(result.table.at(round, 0, 2).mean(), reference);
  }
}

TEST(MeasureInterleaved, ACallersStopKeepsTheRoundThatItSaw) {
  const auto result = measure_interleaved(
      {.arms = 2, .points = 2, .rounds = 50},
      {.measure = [](const Visit& v) -> Expected<double> { return 1.0 + v.arm; },
       .after_round = [](int round, const RoundTable&) { return round < 4; }});
  EXPECT_EQ(result.reason, StopReason::caller);
  EXPECT_EQ(result.table.rounds(), 5);
  EXPECT_EQ(result.table.times(1, 1), std::vector<double>(5, 2.0));
}

TEST(MeasureInterleaved, AnErrorInsideARoundLeavesOnlyCompleteRounds) {
  int calls = 0;
  const auto result = measure_interleaved(
      {.arms = 2, .points = 1, .rounds = 5}, {.measure = [&](const Visit&) -> Expected<double> {
        if (++calls == 11) return environment_error("the device fell off the bus");
        return 1.0;
      }});
  EXPECT_EQ(result.reason, StopReason::error);
  ASSERT_TRUE(result.error.has_value());
  EXPECT_EQ(result.error->message, "the device fell off the bus");
  EXPECT_EQ(result.table.rounds(), 2);
}

TEST(MeasureInterleaved, RefusesATimeThatIsNoTimeAndNamesWhereItCameFrom) {
  for (const double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const auto result = measure_interleaved(
        {.arms = 2, .points = 1, .rounds = 1},
        {.measure = [&](const Visit& v) -> Expected<double> { return v.arm == 1 ? bad : 1.0; }});
    ASSERT_EQ(result.reason, StopReason::error);
    EXPECT_NE(result.error->message.find("arm 1"), std::string::npos);
  }
}

TEST(MeasureInterleaved, RefusesAnEmptySchedule) {
  const auto result = measure_interleaved({.arms = 2, .points = 0, .rounds = 3}, {});
  ASSERT_EQ(result.reason, StopReason::error);
  EXPECT_EQ(result.error->kind, ErrorKind::bad_input);
}

TEST(RoundTable, LeavesDroppedRoundsOutForEveryArmAlike) {
  RoundTable table(1, 2);
  for (int round = 0; round < 4; ++round) {
    table.append({{1.0 * round, 1.0 * round}, {10.0 + round, 10.0 + round}});
  }
  EXPECT_EQ(table.times(0, 0, {1, 3}), (std::vector<double>{0, 2}));
  EXPECT_EQ(table.times(0, 1, {1, 3}), (std::vector<double>{10, 12}));
}

}  // namespace
}  // namespace splitwave::measure
