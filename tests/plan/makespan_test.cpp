// List scheduling against a heap, and what the launch rules in use elsewhere lose to it.
#include "plan/makespan.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "plan/waves.h"

namespace splitwave {
namespace {

// Graham's rule, one item at a time.
double heap_makespan(const std::vector<ItemGroup>& items, int slots) {
  std::priority_queue<double, std::vector<double>, std::greater<>> free;
  for (int s = 0; s < slots; ++s) free.push(0.0);
  double end = 0;
  for (const ItemGroup& group : items) {
    for (std::int64_t i = 0; i < group.count; ++i) {
      const double done = free.top() + group.duration_us;
      free.pop();
      free.push(done);
      end = std::max(end, done);
    }
  }
  return end;
}

TEST(Makespan, EqualItemsTakeCeilWaves) {
  const ItemGroup items[] = {{512, 2.0}};
  EXPECT_DOUBLE_EQ(list_makespan_us(items, 188), 6.0);
  const ItemGroup none[] = {{0, 2.0}};
  EXPECT_EQ(list_makespan_us(none, 188), 0.0);
}

TEST(Makespan, AShortTailFillsWhatAWaveCountWouldRoundUp) {
  // 3 long items on 2 slots, then 1 short one: it fits beside the third long one.
  const ItemGroup items[] = {{3, 4.0}, {1, 1.0}};
  EXPECT_DOUBLE_EQ(list_makespan_us(items, 2), 8.0);
}

TEST(Makespan, AMillionItemsCostNoMoreThanAFew) {
  const ItemGroup items[] = {{std::int64_t{1} << 40, 1.0}, {1000, 0.25}};
  EXPECT_GT(list_makespan_us(items, 132), 8e9);
}

RC_GTEST_PROP(MakespanProperty, GroupsGiveWhatSingleItemsGive, ()) {
  std::vector<ItemGroup> items;
  const int groups = *rc::gen::inRange(0, 5);
  for (int g = 0; g < groups; ++g) {
    // Quarters add up exactly, so that both ways give the same bits.
    items.push_back({*rc::gen::inRange(0, 300), *rc::gen::inRange(0, 40) * 0.25});
  }
  const int slots = *rc::gen::inRange(1, 40);
  RC_ASSERT(list_makespan_us(items, slots) == heap_makespan(items, slots));
}

RC_GTEST_PROP(MakespanProperty, LiesBetweenTheLowerBoundsAndGrahamsBound, ()) {
  const std::vector<ItemGroup> items = {
      {*rc::gen::inRange(1, 500), *rc::gen::inRange(1, 99) * 0.1},
      {*rc::gen::inRange(1, 500), *rc::gen::inRange(1, 99) * 0.1}};
  const int slots = *rc::gen::inRange(1, 200);
  double work = 0;
  double longest = 0;
  for (const ItemGroup& g : items) {
    work += static_cast<double>(g.count) * g.duration_us;
    longest = std::max(longest, g.duration_us);
  }
  const double span = list_makespan_us(items, slots);
  RC_ASSERT(span >= std::max(longest, work / slots) * (1 - 1e-12));
  RC_ASSERT(span <= (work / slots + longest) * (1 + 1e-12));
}

// ---- what other rules lose ---------------------------------------------------------------------
// A published comparison, reproduced: one chunk is one unit of time, a CTA costs c0, a merge costs
// `merge` if there is one; 188 slots, head tiles of 16. Every rule picks its chunks per block, the
// same list scheduling judges it, the worst ratio to the best choice over T = 1..128 is reported.

struct RuleShape {
  int heads;
  int chunks;
  double c0;
  double merge;
};

class RuleComparison {
 public:
  explicit RuleComparison(const RuleShape& shape) : shape_(shape) {}

  using Rule = std::function<int(const RuleComparison&, int tokens)>;
  struct Worst {
    double ratio = 0;
    int tokens = 0;
  };

  [[nodiscard]] Worst worst_of(const Rule& rule) const {
    Worst worst;
    for (int tokens = 1; tokens <= 128; ++tokens) {
      double best = cost(tokens, 1);
      for (int per_block = 2; per_block <= shape_.chunks; ++per_block) {
        best = std::min(best, cost(tokens, per_block));
      }
      const double ratio = cost(tokens, rule(*this, tokens)) / best;
      if (ratio > worst.ratio + 1e-12) worst = {ratio, tokens};
    }
    return worst;
  }

  [[nodiscard]] int base(int tokens) const { return tokens * shape_.heads / 16; }
  [[nodiscard]] int splits(int per_block) const {
    return (shape_.chunks + per_block - 1) / per_block;
  }
  [[nodiscard]] double waves(int tokens, int per_block) const {
    return static_cast<double>(base(tokens)) * splits(per_block) / k_slots;
  }
  [[nodiscard]] const RuleShape& shape() const { return shape_; }

  static constexpr int k_slots = 188;

 private:
  [[nodiscard]] double cost(int tokens, int per_block) const {
    const int s = splits(per_block);
    const ItemGroup items[] = {{std::int64_t{base(tokens)} * (s - 1), per_block + shape_.c0},
                               {base(tokens), shape_.chunks - (s - 1) * per_block + shape_.c0}};
    return list_makespan_us(items, k_slots) + (s > 1 ? shape_.merge : 0);
  }

  RuleShape shape_;
};

// ceil(waves) * (chunks + c0), the rule that FlashInfer's pull request 4802 tried and rejected.
int ceil_wave_rule(const RuleComparison& c, int tokens) {
  int best = 1;
  std::pair<double, int> best_key{1e300, 0};
  for (int n = 1; n <= c.shape().chunks; ++n) {
    const double merge = c.splits(n) > 1 ? c.shape().merge : 0;
    const std::pair key{std::ceil(c.waves(tokens, n)) * (n + c.shape().c0) + merge, -n};
    if (key < best_key) {
      best_key = key;
      best = n;
    }
  }
  return best;
}

// The least idle share of the last wave, among at most three waves.
int gap_rule(const RuleComparison& c, int tokens) {
  int best = 1;
  std::pair<double, int> best_key{1e300, 0};
  for (int n = 1; n <= c.shape().chunks; ++n) {
    const double w = c.waves(tokens, n);
    const std::pair key{std::ceil(w) <= 3 ? std::ceil(w) - w : 1e200, -n};
    if (key < best_key) {
      best_key = key;
      best = n;
    }
  }
  return best;
}

// FlashAttention's: the fewest splits within 85 % of the best efficiency.
int efficiency_rule(const RuleComparison& c, int tokens) {
  const int n = c.shape().chunks;
  const int base = c.base(tokens);
  if (base >= 0.8 * RuleComparison::k_slots || n <= 4) return n;
  const int most = std::min({128, RuleComparison::k_slots, n});
  const auto efficiency = [base](int s) {
    const double w = static_cast<double>(base) * s / RuleComparison::k_slots;
    return w / std::ceil(w);
  };
  double best = 0;
  for (int s = 1; s <= most; ++s) best = std::max(best, efficiency(s));
  int s = 1;
  while (efficiency(s) < 0.85 * best) ++s;
  return (n + s - 1) / s;
}

int no_split_rule(const RuleComparison& c, int) { return c.shape().chunks; }

TEST(Makespan, ReproducesWhatLaunchRulesLoseBetweenThePowersOfTwo) {
  struct Row {
    RuleShape shape;
    RuleComparison::Worst ceil_wave, gap, efficiency, no_split;
  };
  const Row rows[] = {
      {{64, 10, 1, 1}, {1.22, 29}, {1.57, 19}, {1.33, 1}, {3.67, 1}},
      {{64, 10, 3, 1.5}, {1.09, 48}, {1.59, 14}, {1.65, 36}, {2.36, 1}},
      {{128, 18, 1, 1}, {1.19, 16}, {1.90, 10}, {1.41, 24}, {6.33, 1}},
      {{128, 32, 3, 1.5}, {1.13, 16}, {1.73, 11}, {1.36, 24}, {5.38, 1}},
  };
  for (const Row& row : rows) {
    const RuleComparison comparison(row.shape);
    const std::tuple<const char*, RuleComparison::Rule, RuleComparison::Worst> rules[] = {
        {"ceil-wave", ceil_wave_rule, row.ceil_wave},
        {"gap", gap_rule, row.gap},
        {"efficiency", efficiency_rule, row.efficiency},
        {"no split", no_split_rule, row.no_split}};
    for (const auto& [name, rule, expected] : rules) {
      const RuleComparison::Worst worst = comparison.worst_of(rule);
      EXPECT_NEAR(worst.ratio, expected.ratio, 0.0051) << name << ", c0 " << row.shape.c0;
      EXPECT_EQ(worst.tokens, expected.tokens) << name << ", c0 " << row.shape.c0;
    }
  }
}

TEST(Waves, CountsTheLastWaveAndAnEmptyLaunch) {
  static_assert(waves_of(512, 188).waves == 3);
  static_assert(waves_of(0, 188).waves == 0);
  EXPECT_NEAR(waves_of(512, 188).utilization, 0.9078, 1e-4);
  static_assert(splits_for_target(512, 64, 2) == 4);
  static_assert(splits_for_target(512, 300, 2) == 1);
  static_assert(splits_for_target(1, 1, 1) == 1);
}

}  // namespace
}  // namespace splitwave
