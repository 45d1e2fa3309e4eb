// The schedule: balance, direction, determinism.
#include "experiment/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace splitwave::experiment {
namespace {

TEST(Schedule, VisitsEveryPointOnceARoundAndEverySlotTwice) {
  for (int index = 0; index < 20; ++index) {
    const Round round = make_round(3, index, 7, 4);
    std::set<int> points;
    for (const Visit& v : round.visits) {
      points.insert(v.point);
      ASSERT_EQ(v.slots.size(), 10U);
      std::map<int, int> count;
      for (const int slot : v.slots) ++count[slot];
      for (int slot = 0; slot < 5; ++slot) EXPECT_EQ(count[slot], 2);
    }
    EXPECT_EQ(points.size(), 7U);
  }
}

// The mean position of a slot's two measurements is the same for all slots, so that a linear drift
// over the visit adds the same to each of them.
TEST(Schedule, GivesEverySlotTheSameMeanPosition) {
  for (int index = 0; index < 20; ++index) {
    for (const Visit& v : make_round(3, index, 3, 3).visits) {
      std::map<int, int> positions;
      for (std::size_t i = 0; i < v.slots.size(); ++i) positions[v.slots[i]] += static_cast<int>(i);
      for (const auto& [slot, sum] : positions) EXPECT_EQ(sum, 7) << "slot " << slot;
    }
  }
}

TEST(Schedule, StartsWithEachSlotEquallyOftenAtEachPoint) {
  constexpr int k_arms = 3;
  std::map<std::pair<int, int>, int> first;  // (point, slot)
  for (int index = 0; index < 40; ++index) {
    for (const Visit& v : make_round(11, index, 5, k_arms).visits) ++first[{v.point, v.slots[0]}];
  }
  for (int point = 0; point < 5; ++point) {
    for (int slot = 0; slot < slot_count(k_arms); ++slot) EXPECT_EQ((first[{point, slot}]), 10);
  }
}

TEST(Schedule, PutsEachSlotBeforeEachOtherAboutEquallyOften) {
  int before = 0;
  constexpr int k_rounds = 400;
  for (int index = 0; index < k_rounds; ++index) {
    const auto slots = make_round(5, index, 1, 2).visits[0].slots;
    const auto at = [&](int s) { return std::find(slots.begin(), slots.end(), s) - slots.begin(); };
    before += at(0) < at(2) ? 1 : 0;
  }
  EXPECT_NEAR(before, k_rounds / 2, 30);
}

TEST(Schedule, DependsOnTheSeedAlone) {
  const auto order = [](std::uint64_t seed) {
    std::vector<int> all;
    for (int i = 0; i < 6; ++i) {
      for (const Visit& v : make_round(seed, i, 9, 3).visits) {
        all.push_back(v.point);
        all.insert(all.end(), v.slots.begin(), v.slots.end());
      }
    }
    return all;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(Schedule, NamesTheArmOfEachSlot) {
  EXPECT_EQ(arm_of_slot(0), 0);
  EXPECT_EQ(arm_of_slot(1), 0) << "the A/A pair";
  EXPECT_EQ(arm_of_slot(2), 1);
  EXPECT_EQ(slot_count(3), 4);
}

}  // namespace
}  // namespace splitwave::experiment
