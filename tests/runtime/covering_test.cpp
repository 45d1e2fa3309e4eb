// Covering designs: every allowed pair occurs, and few assignments are needed.
#include "runtime/covering.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <tuple>

namespace splitwave {
namespace {

using Pair = std::tuple<std::size_t, int, std::size_t, int>;

std::set<Pair> pairs_of(std::span<const Assignment> assignments) {
  std::set<Pair> pairs;
  for (const Assignment& a : assignments) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      for (std::size_t j = i + 1; j < a.size(); ++j) pairs.emplace(i, a[i], j, a[j]);
    }
  }
  return pairs;
}

CoveringRequest request(std::vector<int> levels) {
  return {.levels = std::move(levels),
          .is_allowed = [](const Assignment&) { return true; },
          .cost = [](const Assignment&) { return 0.0; }};
}

TEST(Covering, HoldsEveryPairOfLevels) {
  const CoveringRequest r = request({2, 9, 5, 3, 7, 2, 4});
  const Covering c = cover_pairs(r);
  std::int64_t expected = 0;
  for (std::size_t i = 0; i < r.levels.size(); ++i) {
    for (std::size_t j = i + 1; j < r.levels.size(); ++j) expected += r.levels[i] * r.levels[j];
  }
  EXPECT_EQ(c.pairs, expected);
  EXPECT_EQ(c.pairs_uncovered, 0);
  EXPECT_EQ(static_cast<std::int64_t>(pairs_of(c.assignments).size()), expected);
  // 9 x 7 = 63 is the least possible; the full cross has 15,120.
  EXPECT_LT(c.assignments.size(), 63U * 2);
}

TEST(Covering, HonoursWhatIsNotAllowedAndCountsThePairsThatItRulesOut) {
  CoveringRequest r = request({3, 3, 3});
  r.is_allowed = [](const Assignment& a) { return !(a[0] == 1 && a[2] == 2); };
  const Covering c = cover_pairs(r);
  EXPECT_EQ(c.pairs_uncovered, 1);
  for (const Assignment& a : c.assignments) EXPECT_TRUE(r.is_allowed(a));
  EXPECT_EQ(pairs_of(c.assignments).size(), 26U);
}

TEST(Covering, SpreadsDistinctAssignmentsAfterwards) {
  const CoveringRequest r = request({4, 4, 4, 4});
  const Covering c = cover_pairs(r);
  const std::vector<Assignment> more = spread_pairs(r, c.assignments, 60);
  std::set<Assignment> all(c.assignments.begin(), c.assignments.end());
  all.insert(more.begin(), more.end());
  EXPECT_EQ(all.size(), c.assignments.size() + 60);
}

TEST(Covering, GivesFewerWhenNoMoreExist) {
  const CoveringRequest r = request({2, 2});
  EXPECT_EQ(spread_pairs(r, {}, 100).size(), 4U);
}

TEST(Covering, PrefersCheapAssignments) {
  CoveringRequest r = request({3, 3, 3, 3});
  r.cost = [](const Assignment& a) { return a[3] == 2 ? 50.0 : 0.0; };
  int expensive = 0;
  const std::vector<Assignment> spread = spread_pairs(r, {}, 20);
  for (const Assignment& a : spread) expensive += a[3] == 2 ? 1 : 0;
  EXPECT_EQ(expensive, 0);
}

}  // namespace
}  // namespace splitwave
