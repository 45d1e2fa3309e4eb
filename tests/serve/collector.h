// A sink that keeps what it is given, and what a request must generate when it runs alone.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "serve/fake_engine.h"
#include "serve/generation.h"
#include "serve/sampler.h"

namespace splitwave::serve::test {

class Collector final : public GenerationSink {
 public:
  bool on_token(const GeneratedToken& token) override {
    EXPECT_EQ(ends, 0) << "a token after the end";
    EXPECT_EQ(token.index, static_cast<int>(tokens.size())) << "a token lost or doubled";
    tokens.push_back(token);
    return stop_after > 0 && static_cast<int>(tokens.size()) >= stop_after;
  }
  void on_end(const GenerationEnd& what) override {
    ++ends;
    end = what;
  }
  [[nodiscard]] std::vector<std::int32_t> ids() const {
    std::vector<std::int32_t> result;
    for (const GeneratedToken& t : tokens) result.push_back(t.token);
    return result;
  }

  std::vector<GeneratedToken> tokens;
  GenerationEnd end;
  int ends = 0;
  int stop_after = 0;
};

// The fake engine's answer to a request that nothing disturbs.
inline std::vector<std::int32_t> expected_tokens(const GenerationRequest& request,
                                                 const FakeOptions& options) {
  std::vector<std::int32_t> tokens = request.prompt;
  std::vector<std::int32_t> generated;
  std::vector<float> logits(static_cast<std::size_t>(options.vocab_size));
  Sampler sampler;
  while (static_cast<int>(generated.size()) < request.max_tokens) {
    FakeEngine::fill(tokens, logits);
    const int index = static_cast<int>(generated.size());
    const bool masks = index < request.sampling.min_tokens;
    const std::int32_t token =
        sampler.sample(logits, request.sampling, index,
                       masks ? std::span<const std::int32_t>(request.end_tokens)
                             : std::span<const std::int32_t>());
    tokens.push_back(token);
    generated.push_back(token);
    const bool is_end = std::find(request.end_tokens.begin(), request.end_tokens.end(), token) !=
                        request.end_tokens.end();
    if (is_end && !request.sampling.ignore_eos && !masks) break;
  }
  return generated;
}

}  // namespace splitwave::serve::test
