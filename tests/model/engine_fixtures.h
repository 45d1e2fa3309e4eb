// The tiny model, made once a process, and sessions run on it. For the engine's tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/random.h"
#include "model/engine.h"
#include "model/make_tiny.h"
#include "support/temp_dir.h"

namespace splitwave::model {

inline std::shared_ptr<const Checkpoint> tiny_checkpoint() {
  static const std::shared_ptr<const Checkpoint> made = [] {
    const test::TempDir dir;  // removed at the end: the mapping stays
    const std::string folder = dir.path().string();
    const Status status = make_tiny(folder, {});
    EXPECT_TRUE(status.ok()) << status.error().message;
    auto opened = Checkpoint::open(folder);
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    auto shared = std::make_shared<const Checkpoint>(std::move(*opened));
    return shared;
  }();
  return made;
}

inline EngineOptions small_options() {
  EngineOptions options;
  options.sequences_max = 100;
  options.tokens_per_step_max = 256;
  options.positions_max = 1024;
  options.kv_tokens_max = 100 * 512;
  options.threads = 2;
  return options;
}

inline std::unique_ptr<Engine> make_engine(const EngineOptions& options = small_options()) {
  auto engine = make_cpu_engine(tiny_checkpoint(), options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(*engine);
}

inline std::vector<std::int32_t> random_tokens(std::uint64_t seed, int count, int vocab = 4096) {
  Rng random(seed);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (auto& token : tokens)
    token = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(vocab)));
  return tokens;
}

// One session alone: the logits after every token of the list from `first` on, fed in chunks.
inline std::vector<float> solo_logits(Engine& engine, const std::vector<std::int32_t>& tokens,
                                      int chunk, int first) {
  int reused = 0;
  const auto id = engine.open(tokens, &reused);
  EXPECT_TRUE(id.ok());
  const auto vocab = static_cast<std::size_t>(engine.config().vocab_size);
  std::vector<float> all;
  std::vector<float> row(vocab);
  int at = reused;
  while (at < static_cast<int>(tokens.size())) {
    // Chunks before `first`, then one token at a time.
    const int n = at < first ? std::min(chunk, first - at) : 1;
    EXPECT_TRUE(engine.reserve(*id, n));
    const StepRow step{
        *id, std::span(tokens).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(n))};
    const Status status = engine.step(std::span(&step, 1), row);
    EXPECT_TRUE(status.ok()) << status.error().message;
    at += n;
    if (at >= first) all.insert(all.end(), row.begin(), row.end());
  }
  engine.close(*id);
  return all;
}

}  // namespace splitwave::model
