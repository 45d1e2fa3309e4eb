// The correctness gates that an arm passes before it is timed. Owns the three gates on decode calls
// and the calls that they need (a row alone, the batch reversed). Host memory; what executes a call
// is the caller's. Standard library only. Called by the decode executor.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "formats/reference.h"
#include "splitwave/problem.h"
#include "splitwave/status.h"

namespace splitwave::experiment {

// Output memory of a call, contiguous: out bf16 [rows, heads, 512], lse fp32 [rows, heads].
struct DecodeOutput {
  std::vector<std::uint16_t> out;
  std::vector<float> lse;

  // Sizes the memory, fills it with a NaN pattern and points the call at it.
  void attach(DecodeCall& call, int heads);
  [[nodiscard]] bool operator==(const DecodeOutput& other) const;  // bitwise
};

// Executes one call whose pointers are host memory and waits for its result.
using RunCall = std::function<Status(const DecodeCall&)>;

struct GateOutcome {
  bool passed = false;
  double worst = 0;
  std::string detail;
};

// The rows of a call in another order or number, with its own copies of queries and lists.
class SelectedRows {
 public:
  SelectedRows(const ProblemSpec& spec, const DecodeCall& call, const std::vector<int>& rows);
  [[nodiscard]] const DecodeCall& call() const { return call_; }

 private:
  DecodeCall call_;
  std::vector<std::uint16_t> q_;
  std::vector<std::int32_t> slots_[2];
  std::vector<std::int32_t> lengths_[2];
};

// Exact arms: every row alone, and every row of the reversed batch, has the bits that it has in the
// batch. worst: how many elements differ.
[[nodiscard]] Expected<GateOutcome> invariance_gate(const ProblemSpec& spec, const DecodeCall& call,
                                                    const RunCall& run);

// The same call twice gives the same bits.
[[nodiscard]] Expected<GateOutcome> repeat_gate(const ProblemSpec& spec, const DecodeCall& call,
                                                const RunCall& run);

// Every row and head lies within the contract of the double reference (formats/compare.h). worst:
// the largest relative L2 of a row and head.
[[nodiscard]] Expected<GateOutcome> accuracy_gate(const ProblemSpec& spec, const DecodeCall& call,
                                                  const ReferenceResult& reference,
                                                  const RunCall& run);

// reference_decode over `threads` threads, row by row. Called once a point: all arms share it.
[[nodiscard]] ReferenceResult parallel_reference(const ProblemSpec& spec, const DecodeCall& call,
                                                 int threads);

}  // namespace splitwave::experiment
