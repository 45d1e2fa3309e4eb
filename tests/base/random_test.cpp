// The generator against its published reference values, and its derived draws.
#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

namespace splitwave {
namespace {

// An independent transcription of splitmix64 and xoshiro256++, step by step, as the oracle.
struct Oracle {
  std::array<std::uint64_t, 4> s{};
  explicit Oracle(std::uint64_t seed) {
    for (auto& word : s) {
      seed += 0x9e3779b97f4a7c15ULL;
      std::uint64_t z = seed;
      z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
      z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
      word = z ^ z >> 31;
    }
  }
  static std::uint64_t rotl(std::uint64_t x, int k) { return x << k | x >> (64 - k); }
  std::uint64_t operator()() {
    const auto result = rotl(s[0] + s[3], 23) + s[0];
    const auto t = s[1] << 17;
    s[2] ^= s[0], s[3] ^= s[1], s[1] ^= s[2], s[0] ^= s[3], s[2] ^= t, s[3] = rotl(s[3], 45);
    return result;
  }
};

TEST(Rng, SplitmixSeedsWithItsPublishedFirstValue) {
  // The first output of splitmix64 from state 0 (Vigna's reference code).
  EXPECT_EQ(Oracle(0).s[0], 0xe220a8397b1dcdafULL);
}

TEST(Rng, FollowsXoshiro256PlusPlus) {
  for (const std::uint64_t seed : {0ULL, 1ULL, 0xdeadbeefULL}) {
    Rng rng(seed);
    Oracle oracle(seed);
    for (int i = 0; i < 1'000; ++i) ASSERT_EQ(rng.next(), oracle());
  }
}

TEST(Rng, StreamsOfNeighbouringSeedsDoNotCoincide) {
  std::set<std::uint64_t> first;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    for (std::uint64_t stream = 0; stream < 50; ++stream) first.insert(Rng(seed, stream).next());
  }
  EXPECT_EQ(first.size(), 2'500U);
}

TEST(Rng, BelowIsUniformAndReachesEveryValue) {
  Rng rng(3);
  std::vector<int> seen(7);
  for (int i = 0; i < 70'000; ++i) ++seen[rng.below(7)];
  double chi_squared = 0;
  for (const int count : seen) chi_squared += (count - 10'000.0) * (count - 10'000.0) / 10'000;
  EXPECT_LT(chi_squared, 22.5);  // 6 degrees of freedom, p = 0.001
  EXPECT_EQ(rng.below(1), 0U);
}

TEST(Rng, UniformStaysInItsIntervalAndNormalHasItsMoments) {
  Rng rng(4);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < 200'000; ++i) {
    const double u = rng.uniform();
    ASSERT_TRUE(u >= 0 && u < 1);
    const double z = rng.normal();
    sum += z;
    squares += z * z;
  }
  EXPECT_NEAR(sum / 200'000, 0, 0.01);
  EXPECT_NEAR(squares / 200'000, 1, 0.02);
}

TEST(Rng, ShuffleIsAPermutationAndEveryOrderOccurs) {
  std::set<std::array<int, 3>> orders;
  for (int seed = 0; seed < 100; ++seed) {
    Rng rng(seed);
    std::array<int, 3> items = {0, 1, 2};
    rng.shuffle(std::span<int>(items));
    orders.insert(items);
  }
  EXPECT_EQ(orders.size(), 6U);
}

}  // namespace
}  // namespace splitwave
