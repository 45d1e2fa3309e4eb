// A session's logits, bit for bit, whatever else the engine does. Each test names the one thing
// that must not matter.
#include <cmath>
#include <cstring>

#include "model/engine_fixtures.h"

namespace splitwave::model {
namespace {

constexpr int k_tokens = 300;  // two full blocks and a part; entries of both ratios
constexpr int k_first = 296;

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Token by token, alone, nothing reused.
std::vector<float> fresh_logits(const std::vector<std::int32_t>& tokens) {
  EngineOptions options = small_options();
  options.prefix_reuse = false;
  const auto engine = make_engine(options);
  return solo_logits(*engine, tokens, 1, k_first);
}

const std::vector<std::int32_t>& session() {
  static const auto tokens = random_tokens(1, k_tokens);
  return tokens;
}
const std::vector<float>& expected_logits() {
  static const auto logits = fresh_logits(session());
  return logits;
}

TEST(EngineInvariance, LogitsAreFiniteAndDependOnTheTokens) {
  const auto& a = expected_logits();
  const auto engine = make_engine();
  const auto b = solo_logits(*engine, random_tokens(2, k_tokens), 128, k_first);
  ASSERT_EQ(a.size(), b.size());
  for (const float v : a) ASSERT_TRUE(std::isfinite(v));
  EXPECT_FALSE(same_bits(a, b));
}

TEST(EngineInvariance, ChunkedPrefillGivesTheBitsOfTokenByTokenDecode) {
  const auto& tokens = session();
  const auto& expected = expected_logits();
  for (const int chunk : {3, 127, 129, 256}) {
    EngineOptions options = small_options();
    options.prefix_reuse = false;
    const auto engine = make_engine(options);
    EXPECT_TRUE(same_bits(expected, solo_logits(*engine, tokens, chunk, k_first))) << chunk;
  }
}

TEST(EngineInvariance, ThreadsDoNotMatter) {
  const auto& tokens = session();
  const auto& expected = expected_logits();
  for (const int threads : {1, 3}) {
    EngineOptions options = small_options();
    options.threads = threads;
    const auto engine = make_engine(options);
    EXPECT_TRUE(same_bits(expected, solo_logits(*engine, tokens, 100, k_first))) << threads;
  }
}

TEST(EngineInvariance, AReusedPrefixGivesTheBitsOfAFreshOne) {
  const auto& tokens = session();
  const auto& expected = expected_logits();
  const auto engine = make_engine();
  (void)solo_logits(*engine, tokens, 128, k_first);  // fills the cache
  const auto other = random_tokens(6, k_tokens);
  (void)solo_logits(*engine, other, 128, k_first);
  EXPECT_TRUE(same_bits(expected, solo_logits(*engine, tokens, 128, k_first)));
  EXPECT_EQ(engine->kv_usage().prefix_hits_tokens, 256);
  EXPECT_EQ(engine->kv_usage().pages_used, 0);
}

TEST(EngineInvariance, ARecycledPoolLeaksNothing) {
  const auto& tokens = session();
  const auto& expected = expected_logits();
  EngineOptions options = small_options();
  options.kv_tokens_max = 3 * 128;  // just one session: every block is used again
  const auto engine = make_engine(options);
  for (std::uint64_t seed = 20; seed < 23; ++seed) {
    (void)solo_logits(*engine, random_tokens(seed, 384), 128, 380);
  }
  EXPECT_TRUE(same_bits(expected, solo_logits(*engine, tokens, 64, k_first)));
}

// Decodes sessions together; session `watched` of them has the given tokens.
std::vector<float> batch_logits(Engine& engine, const std::vector<std::int32_t>& tokens,
                                int sessions, int watched, bool reversed) {
  std::vector<std::vector<std::int32_t>> all;
  std::vector<SequenceId> ids;
  for (int s = 0; s < sessions; ++s) {
    all.push_back(s == watched ? tokens
                               : random_tokens(1000 + std::uint64_t(s), 20 + (s * 37) % 280));
    int reused = 0;
    const auto id = engine.open(all.back(), &reused);
    EXPECT_TRUE(id.ok());
    ids.push_back(*id);
  }
  const auto vocab = static_cast<std::size_t>(engine.config().vocab_size);
  std::vector<float> logits(static_cast<std::size_t>(sessions) * vocab);
  std::vector<float> collected;
  std::vector<int> order;
  for (int s = 0; s < sessions; ++s) order.push_back(reversed ? sessions - 1 - s : s);
  const auto& mine = all[static_cast<std::size_t>(watched)];
  while (engine.length(ids[static_cast<std::size_t>(watched)]) < std::ssize(mine)) {
    std::vector<StepRow> rows;
    int budget = 256;
    int my_row = -1;
    for (const int s : order) {
      const auto at = static_cast<std::size_t>(s);
      const int done = engine.length(ids[at]);
      int n = std::min<int>(static_cast<int>(std::ssize(all[at])) - done, 1 + (s * 5) % 9);
      if (s == watched && done < k_first) n = std::min(n, k_first - done);
      if (s == watched && done >= k_first) n = 1;
      n = std::min(n, budget);
      if (n <= 0) continue;
      budget -= n;
      EXPECT_TRUE(engine.reserve(ids[at], n));
      if (s == watched) my_row = static_cast<int>(rows.size());
      rows.push_back({ids[at], std::span(all[at]).subspan(static_cast<std::size_t>(done),
                                                          static_cast<std::size_t>(n))});
    }
    const Status status = engine.step(rows, logits);
    EXPECT_TRUE(status.ok()) << status.error().message;
    if (my_row >= 0 && engine.length(ids[static_cast<std::size_t>(watched)]) >= k_first) {
      const auto begin =
          logits.begin() + static_cast<std::ptrdiff_t>(my_row) * static_cast<std::ptrdiff_t>(vocab);
      collected.insert(collected.end(), begin, begin + static_cast<std::ptrdiff_t>(vocab));
    }
  }
  for (const SequenceId id : ids) engine.close(id);
  return collected;
}

TEST(EngineInvariance, NeighboursSlotsAndOrderDoNotMatter) {
  const auto& tokens = session();
  const auto& expected = expected_logits();
  for (const int sessions : {2, 17}) {
    for (const bool reversed : {false, true}) {
      const auto engine = make_engine();
      EXPECT_TRUE(
          same_bits(expected, batch_logits(*engine, tokens, sessions, sessions / 2, reversed)))
          << sessions << " sessions, reversed " << reversed;
    }
  }
}

TEST(EngineInvariance, ASeededFaultBreaksIt) {
  const auto& tokens = session();
  const auto& expected = expected_logits();
  for (const SeededFault fault :
       {SeededFault::swapped_pages, SeededFault::dropped_dependency, SeededFault::stale_stride,
        SeededFault::shared_scratch, SeededFault::flipped_bit}) {
    EngineOptions options = small_options();
    options.fault = fault;
    options.fault_seed = 11;
    const auto engine = make_engine(options);
    EXPECT_FALSE(same_bits(expected, batch_logits(*engine, tokens, 8, 7, false)))
        << static_cast<int>(fault);
  }
}

}  // namespace
}  // namespace splitwave::model
