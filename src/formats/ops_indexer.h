// The double-precision reference of the indexer's logits, and the exact reference of the select
// call. Owns their meaning; every backend is judged against it. Host memory only, slow on purpose.
#pragma once

#include <string>
#include <vector>

#include "splitwave/ops.h"

namespace splitwave {

struct ReferenceLogits {
  std::int64_t columns = 0;    // spec.length_max
  std::vector<double> logits;  // [rows, columns]; meaningful below the row's length
  // |s| * sum |w_h| * sum |q_d k_d|: what a logit could be without cancellation. Errors are judged
  // against it.
  std::vector<double> magnitudes;  // [rows, columns]
};

[[nodiscard]] ReferenceLogits reference_logits(const IndexerSpec& spec, const LogitsCall& call);

// A row's length as every backend uses it: clamped to 0..length_max.
[[nodiscard]] std::int64_t clamped_length(const std::int32_t* lengths, int row,
                                          std::int64_t length_max);

// Largest permitted |logit - reference| / magnitude: fp32 sums of 128 exact products and of at most
// 64 heads, in any order, truncating MMA accumulators included. One dropped product of 8,192 in a
// logit moves it by about 1e-4 of its magnitude.
inline constexpr double k_logit_tolerance = 1e-5;

struct LogitsComparison {
  bool ok = false;
  double worst = 0;     // |logit - reference| / magnitude
  std::string failure;  // empty when ok: row, column, both values
};
// NaN and infinities must match; columns past a row's length must still hold untouched_bits.
[[nodiscard]] LogitsComparison compare_logits(const IndexerSpec& spec, const LogitsCall& call,
                                              const ReferenceLogits& reference,
                                              std::uint32_t untouched_bits);

}  // namespace splitwave
