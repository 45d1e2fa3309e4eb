// Runs the decode contract's cells against a backend. Owns the executor's seam, the judgement of a
// cell and the result; contract_cells.h owns which cells there are. Called by `splitwave verify`,
// by tests/runtime, and by the GPU check (it needs no test framework).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "formats/synthetic.h"
#include "runtime/contract_cells.h"
#include "splitwave/status.h"

namespace splitwave {

// How a sequence of calls is to be launched.
struct SuiteRun {
  ProblemSpec spec;
  std::string plan;                  // SPLITWAVE_PLAN text
  int threads = 0;                   // CPU workers; 0: the executor's choice
  std::string execution = "direct";  // or one of SuiteTraits::executions
};

// A call in host memory with the extents of its buffers. An executor on another device copies the
// buffers there, and q's, lists' and outputs' gaps with them: out and lse come back whole.
struct HostCall {
  DecodeCall call;
  CallBuffers buffers;
};

class SuiteExecutor {
 public:
  virtual ~SuiteExecutor() = default;
  // Creates one decoder for run.spec and makes the calls on it in order. An error is a failed cell.
  // The suite never calls it from two threads at once.
  [[nodiscard]] virtual Status run(const SuiteRun& run, std::span<const HostCall> calls) = 0;
};

struct SuiteFailure {
  std::string key;
  std::string reason;
};

struct SuiteResult {
  std::int64_t cases = 0;
  std::int64_t failed = 0;
  std::vector<SuiteFailure> failures;  // in the order of the cells
  double worst_rel_l2 = 0;             // over tensors
  double worst_row_rel_l2 = 0;         // over (row, head)
  double worst_lse_error = 0;
  std::map<std::string, std::vector<std::string>> dimensions;  // every value that occurred
  std::map<std::string, std::int64_t> families;                // cells of each
};

struct SuiteOptions {
  int threads = 0;                // that build problems and references; 0: all cores, at most 16
  std::function<void()> on_cell{};  // after each cell, from any thread, one at a time
};

// Refuses cells that are not distinct.
[[nodiscard]] Expected<SuiteResult> run_cells(const std::vector<ContractCell>& cells,
                                              SuiteExecutor& executor,
                                              const SuiteOptions& options = {});

}  // namespace splitwave
