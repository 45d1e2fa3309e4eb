// Slots and rounds: balance, and who has a place.
#include "experiment/schedule.h"

#include <gtest/gtest.h>

#include <map>

namespace splitwave::experiment {
namespace {

RunSpec make_run(int arms, int points) {
  RunSpec run;
  for (int i = 0; i < arms; ++i) run.arms.push_back({"arm" + std::to_string(i), "", {}, 0});
  for (int i = 0; i < points; ++i) run.points.push_back({i + 1, 0, {}});
  run.stopping.rounds = 10;
  return run;
}

TEST(Schedule, GivesTheIncumbentTwoPlacesAndEveryArmOne) {
  const Schedule schedule = make_schedule(make_run(3, 2));
  EXPECT_EQ(schedule.slots, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(arm_of_slot(0), 0);
  EXPECT_EQ(arm_of_slot(1), 0);
  for (int arm = 0; arm < 3; ++arm) EXPECT_EQ(arm_of_slot(slot_of_arm(arm)), arm);
}

TEST(Schedule, TakesThePlaceOfAnEndedArmAndKeepsTheOthersNumbers) {
  EXPECT_EQ(make_schedule(make_run(4, 2), {0, 0, 1, 0}).slots, (std::vector<int>{0, 1, 2, 4}));
}

// The mean position of a slot's two visits to a point is the same for all slots, so a drift that is
// linear over the visit adds the same to each of them; both halves hold every slot once.
TEST(Schedule, GivesEverySlotTheSameMeanPosition) {
  const Schedule schedule = make_schedule(make_run(3, 5));
  for (int round = 0; round < 20; ++round) {
    std::map<int, std::map<int, int>> positions;  // point, slot index
    std::map<int, int> visits;
    for (const measure::Visit& v : measure::round_order(schedule.order, round)) {
      positions[v.point][v.arm] += visits[v.point]++;
    }
    ASSERT_EQ(positions.size(), 5U);
    for (const auto& [point, slots] : positions) {
      ASSERT_EQ(slots.size(), 4U);
      for (const auto& [slot, sum] : slots) EXPECT_EQ(sum, 7) << "point " << point;
    }
  }
}

TEST(Schedule, RotatesBatchesByRoundAlone) {
  EXPECT_EQ(batch_of_round(0, 3), 0);
  EXPECT_EQ(batch_of_round(4, 3), 1);
}

TEST(Schedule, DescribesARoundInWords) {
  const Schedule schedule = make_schedule(make_run(2, 1));
  const std::string text = describe_round(make_run(2, 1), schedule, 0);
  EXPECT_EQ(text.rfind("round 0: C1: ", 0), 0U) << text;
  EXPECT_NE(text.find(" | "), std::string::npos) << text;
  EXPECT_NE(text.find("A/A"), std::string::npos) << text;
}

TEST(Schedule, CostsEverySlotTwicePerPointAndRound) {
  const RunSpec run = make_run(2, 2);
  EXPECT_NEAR(rounds_cost_s(run, make_schedule(run), {1e6, 2e6}), 10 * 3 * 2 * 3.0, 1e-9);
}

}  // namespace
}  // namespace splitwave::experiment
