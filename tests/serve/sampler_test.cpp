// The sampler against its definitions: greedy, nucleus, frequencies, independence.
#include "serve/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"

namespace splitwave::serve {
namespace {

std::vector<float> random_logits(std::uint64_t seed, std::size_t count) {
  Rng rng(seed);
  std::vector<float> logits(count);
  for (float& x : logits) x = static_cast<float>(rng.normal() * 3);
  return logits;
}

// Nucleus sampling as its definition reads: sort, cut, invert.
std::int32_t slow_nucleus(std::span<const float> logits, double temperature, double top_p,
                          double uniform) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  const double top = logits[static_cast<std::size_t>(order[0])];
  std::vector<double> w;
  for (const std::int32_t t : order) {
    w.push_back(std::exp((logits[static_cast<std::size_t>(t)] - top) / temperature));
  }
  const double target = top_p * std::accumulate(w.begin(), w.end(), 0.0);
  double kept = 0;
  std::size_t n = 0;
  while (n < w.size() && (n == 0 || kept < target)) kept += w[n++];
  double left = uniform * kept;
  for (std::size_t i = 0; i < n; ++i) {
    left -= w[i];
    if (left < 0) return order[i];
  }
  return order[n - 1];
}

TEST(Sampler, GreedyTakesTheLargestLogitAndTheLowerIdOnATie) {
  Sampler sampler;
  SamplingOptions greedy;
  greedy.temperature = 0;
  const std::vector<float> logits = {1, 5, 3, 5, -1};
  EXPECT_EQ(sampler.sample(logits, greedy, 0, {}), 1);
  const std::vector<std::int32_t> masked = {1};
  EXPECT_EQ(sampler.sample(logits, greedy, 0, masked), 3);
}

TEST(Sampler, NanIsNeverChosenWhileANumberIsThere) {
  Sampler sampler;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> logits = {nan, 0.5F, nan, 0.25F};
  for (int i = 0; i < 200; ++i) {
    SamplingOptions options;
    options.temperature = i % 2 == 0 ? 0 : 1;
    options.top_p = i % 3 == 0 ? 0.9 : 1;
    const std::int32_t token = sampler.sample(logits, options, i, {});
    EXPECT_TRUE(token == 1 || token == 3) << token;
  }
}

TEST(Sampler, TheNucleusEqualsItsDefinitionBySorting) {
  Sampler sampler;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const std::vector<float> logits = random_logits(seed, 1000);
    SamplingOptions options;
    options.seed = seed;
    options.temperature = 0.3 + static_cast<double>(seed % 7) * 0.3;
    options.top_p = 0.05 + static_cast<double>(seed % 19) * 0.05;
    const std::int32_t expected =
        options.top_p < 1
            ? slow_nucleus(logits, options.temperature, options.top_p, sampling_uniform(seed, 7))
            : sampler.sample(logits, options, 7, {});
    EXPECT_EQ(sampler.sample(logits, options, 7, {}), expected)
        << "seed " << seed << " top_p " << options.top_p;
  }
}

TEST(Sampler, FrequenciesFollowTheSoftmax) {
  Sampler sampler;
  const std::vector<float> logits = {0, std::log(2.0F), std::log(5.0F)};  // 1/8, 2/8, 5/8
  std::vector<int> counts(3);
  SamplingOptions options;
  options.seed = 11;
  constexpr int k_draws = 80000;
  for (int i = 0; i < k_draws; ++i) {
    ++counts[static_cast<std::size_t>(sampler.sample(logits, options, i, {}))];
  }
  // Five standard deviations of a binomial are below 0.009.
  EXPECT_NEAR(counts[0] / double{k_draws}, 0.125, 0.009);
  EXPECT_NEAR(counts[1] / double{k_draws}, 0.25, 0.009);
  EXPECT_NEAR(counts[2] / double{k_draws}, 0.625, 0.009);
}

TEST(Sampler, ATokenDependsOnSeedAndIndexOnly) {
  const std::vector<float> logits = random_logits(5, 500);
  SamplingOptions options;
  options.seed = 42;
  Sampler fresh;
  const std::int32_t alone = fresh.sample(logits, options, 3, {});
  Sampler used;
  for (int i = 0; i < 10; ++i) {
    SamplingOptions other = options;
    other.seed = static_cast<std::uint64_t>(i);
    (void)used.sample(random_logits(static_cast<std::uint64_t>(i), 700), other, i, {});
  }
  EXPECT_EQ(used.sample(logits, options, 3, {}), alone);
  int differ = 0;
  for (int i = 0; i < 20; ++i) differ += fresh.sample(logits, options, i, {}) != alone ? 1 : 0;
  EXPECT_GT(differ, 5) << "the index does not enter the draw";
}

TEST(Sampler, LogprobsAreTheSoftmaxAndSorted) {
  Sampler sampler;
  const std::vector<float> logits = random_logits(9, 200);
  GeneratedToken token;
  sampler.logprobs(logits, 17, 20, token);
  double total = 0;
  for (const float x : logits) total += std::exp(static_cast<double>(x));
  EXPECT_NEAR(token.logprob, logits[17] - std::log(total), 1e-5);
  ASSERT_EQ(token.top.size(), 20U);
  for (std::size_t i = 1; i < token.top.size(); ++i) {
    EXPECT_GE(token.top[i - 1].logprob, token.top[i].logprob);
  }
  EXPECT_EQ(logits[static_cast<std::size_t>(token.top[0].token)],
            *std::max_element(logits.begin(), logits.end()));
}

TEST(Sampler, OneBitOfOneLogitChangesTheHash) {
  std::vector<float> logits = random_logits(1, 64);
  const std::uint64_t before = hash_logits(logits);
  logits[40] = std::nextafter(logits[40], 10.0F);
  EXPECT_NE(hash_logits(logits), before);
}

}  // namespace
}  // namespace splitwave::serve
