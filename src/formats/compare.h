// The accuracy contract as one function. Owns the tolerances of docs/contract.md: compare_decode
// says whether a backend's result is within them, and where it is worst. inf and NaN positions must
// match; NaN never passes silently.
#pragma once

#include <cstdint>
#include <string>

#include "formats/reference.h"
#include "splitwave/problem.h"

namespace splitwave {

struct Comparison {
  bool ok = false;
  double rel_l2 = 0;            // over the tensor
  double worst_row_rel_l2 = 0;  // over every (row, head)
  double worst_lse_error = 0;   // |lse - ref| / max(1, |ref|)
  double cosine_distance = 0;
  std::string failure;  // empty when ok: what failed, the coordinate, both values
};

// out: bf16 [rows, heads, 512] with the strides of the call; lse may be null.
[[nodiscard]] Comparison compare_decode(const ProblemSpec& spec, const DecodeCall& call,
                                        const ReferenceResult& reference);

}  // namespace splitwave
