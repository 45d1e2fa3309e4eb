// The double-precision reference of sparse decode: the contract's meaning. Owns reference_decode;
// every backend and every variant is judged against it. Slow on purpose: one loop a sentence.
// Host memory only.
#pragma once

#include <vector>

#include "splitwave/problem.h"

namespace splitwave {

struct ReferenceResult {
  std::vector<double> out;  // [rows, heads, 512]
  std::vector<double> lse;  // [rows, heads], natural log, without the sink; +inf for an empty row
};

// Attends call.rows rows of spec.heads heads; call.out and call.lse are not written. K is the exact
// dequantised value (V4: code * 2^(e-127), exact; V3.2: one rounding of code * scale to bf16).
[[nodiscard]] ReferenceResult reference_decode(const ProblemSpec& spec, const DecodeCall& call);

}  // namespace splitwave
