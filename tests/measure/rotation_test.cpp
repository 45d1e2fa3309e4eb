// How many copies keep a cache cold.
#include "measure/rotation.h"

#include <gtest/gtest.h>

namespace splitwave::measure {
namespace {

TEST(Rotation, CopiesTogetherAreAtLeastTwiceTheCache) {
  const Rotation rotation(30, 100);
  EXPECT_EQ(rotation.copies(), 7);  // 7 * 30 = 210 >= 200, 6 * 30 is not
  EXPECT_TRUE(rotation.covers_cache());
}

TEST(Rotation, ACallLargerThanTheCacheStillAlternates) {
  EXPECT_EQ(Rotation(1'000, 100).copies(), 2);
}

TEST(Rotation, ATinyCallIsCappedAndSaysThatItStaysWarm) {
  const Rotation rotation(1, 50'000'000);
  EXPECT_EQ(rotation.copies(), k_rotation_copies_max);
  EXPECT_FALSE(rotation.covers_cache());
}

TEST(Rotation, ComesBackToACopyOnlyAfterAllOthers) {
  Rotation rotation(50, 100);
  ASSERT_EQ(rotation.copies(), 4);
  for (int turn = 0; turn < 3; ++turn) {
    for (int copy = 0; copy < 4; ++copy) EXPECT_EQ(rotation.next(), copy);
  }
}

}  // namespace
}  // namespace splitwave::measure
