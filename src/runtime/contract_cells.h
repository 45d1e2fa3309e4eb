// The matrix of the decode contract as data. Owns which cells the suites hold; runs none. Called by
// the contract suite and by the tests of its coverage.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "runtime/contract_cell.h"
#include "splitwave/status.h"

namespace splitwave {

enum class SuiteSize : std::uint8_t { quick, full };

// What a backend lets a suite vary. Plans are SPLITWAVE_PLAN texts.
struct SuiteTraits {
  std::string backend{};
  std::vector<std::string> accuracy_plans{};  // may change bits
  std::vector<std::string> bitwise_plans{};   // must not change bits
  std::vector<int> threads{};                 // CPU workers; empty: not a dimension
  std::vector<std::string> executions{};      // besides "direct"; how is the executor's business
  std::array<bool, 2> has_f16{true, true};    // by KvFormat; without: its cells ask for bf16
};

[[nodiscard]] SuiteTraits cpu_suite_traits();

// All cells of a suite, no two with one key. Dimensions that are crossed in full: format x every
// head count; format x every width; both page sizes; both length kinds x sink x class; invalid kind
// x value x poison. All 34 dimensions are covered pairwise: any two values of any two occur
// together.
[[nodiscard]] std::vector<ContractCell> decode_cells(const SuiteTraits& traits, SuiteSize size);

// Refuses two cells with one key.
[[nodiscard]] Status check_distinct(const std::vector<ContractCell>& cells);

// A cell without differences that cannot matter (the page size of a cache that is not there).
[[nodiscard]] ContractCell canonical(ContractCell cell);

// Families of contract_cells.cpp (accuracy) and contract_exactness_cells.cpp (same bits).
void add_accuracy_cells(const SuiteTraits& traits, SuiteSize size,
                        std::vector<ContractCell>& cells);
void add_exactness_cells(const SuiteTraits& traits, SuiteSize size,
                         std::vector<ContractCell>& cells);

}  // namespace splitwave
