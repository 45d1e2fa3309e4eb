// Judges one cell of the contract: builds its problems, has them run, compares. Owns what each
// CellCheck means. Called by run_cells alone.
#pragma once

#include <mutex>
#include <string>

#include "runtime/contract_cell.h"
#include "runtime/contract_suite.h"

namespace splitwave {

struct CellVerdict {
  std::string failure;  // empty: passed
  double rel_l2 = 0;
  double row_rel_l2 = 0;
  double lse_error = 0;
};

// gate serialises the executor; problems and references are made outside it.
[[nodiscard]] CellVerdict judge_cell(const ContractCell& cell, SuiteExecutor& executor,
                                     std::mutex& gate);

}  // namespace splitwave
