// The contract suites by operator. Owns the list; an operator adds itself with one line in
// suite_registry.cpp and a function that runs its own cells. Called by `splitwave verify`.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/contract_suite.h"
#include "splitwave/decoder.h"
#include "splitwave/status.h"

namespace splitwave {

struct SuiteRequest {
  Backend backend = Backend::cpu;  // cpu or cuda
  SuiteSize size = SuiteSize::quick;
  int device = 0;   // CUDA ordinal
  int threads = 0;  // that build references, and CPU workers; 0: all cores
  std::function<void(std::int64_t cells)> on_start;  // before the first cell
  std::function<void()> on_cell;                     // after each
};

struct OpSuite {
  std::string_view op;
  std::string_view summary;
  Expected<SuiteResult> (*run)(const SuiteRequest& request);
};

// In the order in which verify runs them.
[[nodiscard]] std::span<const OpSuite> op_suites();
// Null if no operator has that name.
[[nodiscard]] const OpSuite* find_op_suite(std::string_view op);

}  // namespace splitwave
