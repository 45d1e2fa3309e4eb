// The total order, on rows small enough to read.
#include "formats/ops_topk.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "ops/random.h"

namespace splitwave {
namespace {

constexpr float k_inf = std::numeric_limits<float>::infinity();
constexpr float k_nan = std::numeric_limits<float>::quiet_NaN();
using List = std::vector<std::int32_t>;

List top(const std::vector<float>& row, int k) {
  return reference_top_k(row.data(), static_cast<std::int64_t>(row.size()), k);
}

TEST(TopK, TiesGoToTheLowerIndexAndTheListAscends) {
  EXPECT_EQ(top({1, 3, 2, 3, 3}, 2), (List{1, 3}));
  EXPECT_EQ(top({5, 5, 5, 5}, 3), (List{0, 1, 2}));
}

TEST(TopK, SignedZerosAreOneValue) { EXPECT_EQ(top({-0.0F, 0.0F, -0.0F, -1.0F}, 2), (List{0, 1})); }

TEST(TopK, NanIsNeverSelectedAndMinusInfinityMayBe) {
  EXPECT_EQ(top({k_nan, -k_inf, k_nan, 1}, 3), (List{1, 3}));
  EXPECT_EQ(top({k_nan, -k_nan}, 2), List{});
}

TEST(TopK, AnEmptyRowSelectsNothing) { EXPECT_EQ(top({}, 4), List{}); }

TEST(TopKKey, OrdersAsFloatsDoForAllPairs) {
  testing_ops::Random random(4);
  std::vector<float> values{0.0F, -0.0F, k_inf, -k_inf, 0x1p-149F, -0x1p-149F, 1.0F, -1.0F};
  for (int i = 0; i < 400; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random.bits()));
    if (x == x) values.push_back(x);
  }
  for (const float a : values) {
    for (const float b : values) {
      const auto ka = topk_key(std::bit_cast<std::uint32_t>(a));
      const auto kb = topk_key(std::bit_cast<std::uint32_t>(b));
      ASSERT_EQ(a < b, ka < kb) << a << ' ' << b;
      ASSERT_NE(ka, 0U);
    }
  }
  EXPECT_EQ(topk_key(0x7FC00000U), 0U);
  EXPECT_EQ(topk_key(0xFFFFFFFFU), 0U);
}

TEST(PhysicalSlot, RefusesAbsentPagesAndSlotsPast31Bits) {
  const std::vector<std::int32_t> pages{3, -1, 99, 40'000'000};
  const PageTable table{pages.data(), 4};
  EXPECT_EQ(physical_slot(table, 0, 64, 50, 5), 3 * 64 + 5);
  EXPECT_EQ(physical_slot(table, 0, 64, 50, 64), -1);
  EXPECT_EQ(physical_slot(table, 0, 64, 50, 128), -1);
  EXPECT_EQ(physical_slot(table, 0, 64, 50'000'000, 192), -1);  // 2.56e9 does not fit
}

}  // namespace
}  // namespace splitwave
