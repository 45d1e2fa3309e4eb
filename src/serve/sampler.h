// From logits to a token. Owns the sampling arithmetic: a pure function of one row of logits, the
// request's options and the token's index, so that a request draws the same tokens whatever runs
// beside it, after a preemption and on every thread. Called by the scheduler.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "serve/generation.h"

namespace splitwave::serve {

// Uniform in [0, 1): a counter-based generator (splitmix64 over seed and index), no state.
[[nodiscard]] double sampling_uniform(std::uint64_t seed, std::uint64_t index);

// The token of that index. masked are tokens that may not be drawn. Ties go to the lower id; NaN is
// never chosen while a number is there. Buffers are kept between calls.
class Sampler {
 public:
  [[nodiscard]] std::int32_t sample(std::span<const float> logits, const SamplingOptions& options,
                                    int index, std::span<const std::int32_t> masked);

  // Natural-log probabilities under softmax of the logits: token's, and the count most likely.
  void logprobs(std::span<const float> logits, std::int32_t token, int count,
                GeneratedToken& result);

 private:
  std::int32_t draw(std::span<const float> logits, float max_logit, double inverse_temperature,
                    double top_p, double uniform);
  std::int32_t draw_nucleus(double target_mass, double uniform, double inverse_temperature,
                            std::span<const float> logits, float max_logit);

  std::vector<double> weights_;
  std::vector<float> masked_logits_;
  std::vector<std::int32_t> candidates_;
};

// xxhash64 (seed 0) of the row's bytes: the identity of a step's logits.
[[nodiscard]] std::uint64_t hash_logits(std::span<const float> logits);

}  // namespace splitwave::serve
