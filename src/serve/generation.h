// One generation as the scheduler sees it: token ids in, token ids out. Owns GenerationRequest,
// what is reported for each token, and the sink that receives it. Knows nothing of text, JSON or
// HTTP. Made by the API layer, run by the scheduler.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace splitwave::serve {

using Clock = std::chrono::steady_clock;

inline constexpr int k_top_logprobs_max = 20;

struct SamplingOptions {
  double temperature = 1;  // 0: greedy
  double top_p = 1;
  std::uint64_t seed = 0;
  int min_tokens = 0;  // no end token and no stop string before that many
  bool ignore_eos = false;
  int top_logprobs = -1;  // -1: none; 0: the chosen token's only; else that many alternatives too
  bool hashes_logits = false;  // xxhash64 of every step's logits
};

struct TokenLogprob {
  std::int32_t token = 0;
  float logprob = 0;
};

// One generated token. Logprobs and hash are of the model's logits as they came, before temperature
// and masks.
struct GeneratedToken {
  std::int32_t token = 0;
  int index = 0;        // among the generated ones
  bool is_end = false;  // an end token that ends the generation: it has no text
  float logprob = 0;
  std::vector<TokenLogprob> top;
  std::uint64_t logits_hash = 0;
};

enum class FinishReason : std::uint8_t {
  stop,       // an end token or a stop string
  length,     // max_tokens
  cancelled,  // the client went away, or the server is being stopped
  timeout,    // the request's deadline passed
  error,      // the engine refused; the message says why
};
[[nodiscard]] constexpr const char* name_of(FinishReason reason) {
  constexpr const char* k_names[] = {"stop", "length", "abort", "timeout", "error"};
  return k_names[static_cast<int>(reason)];
}

struct GenerationEnd {
  FinishReason reason = FinishReason::stop;
  std::string message;  // of an error
  int prompt_tokens = 0;
  int cached_tokens = 0;  // of the prompt, not computed again
  int generated_tokens = 0;
};

// Called on the engine thread, in order: tokens, then the end exactly once. Must not block.
class GenerationSink {
 public:
  virtual ~GenerationSink() = default;
  // True: the generation is complete with this token (a stop string).
  [[nodiscard]] virtual bool on_token(const GeneratedToken& token) = 0;
  virtual void on_end(const GenerationEnd& end) = 0;
};

struct GenerationRequest {
  std::vector<std::int32_t> prompt;  // at least one token, each below vocab_size
  int max_tokens = 0;                // at least 1
  SamplingOptions sampling;
  std::vector<std::int32_t> end_tokens;
  std::vector<std::int32_t> forced_tokens;  // teacher forcing: what the first tokens are
  Clock::time_point deadline = Clock::time_point::max();
  std::shared_ptr<GenerationSink> sink;
  std::shared_ptr<std::atomic<bool>> cancelled;  // set by any thread
};

}  // namespace splitwave::serve
