// Runs the cells on a few threads: problems and references in parallel, the executor one at a time.
#include "runtime/contract_suite.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "runtime/contract_judge.h"

namespace splitwave {
namespace {

constexpr int k_threads_max = 16;

SuiteResult summarise(const std::vector<ContractCell>& cells,
                      const std::vector<CellVerdict>& verdicts) {
  SuiteResult result;
  std::map<std::string, std::set<std::string>> values;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const CellVerdict& v = verdicts[i];
    ++result.cases;
    ++result.families[cells[i].family];
    for (CellDimension& d : dimensions_of(cells[i])) {
      values[std::string(d.name)].insert(std::move(d.value));
    }
    result.worst_rel_l2 = std::max(result.worst_rel_l2, v.rel_l2);
    result.worst_row_rel_l2 = std::max(result.worst_row_rel_l2, v.row_rel_l2);
    result.worst_lse_error = std::max(result.worst_lse_error, v.lse_error);
    if (v.failure.empty()) continue;
    ++result.failed;
    result.failures.push_back({key_of(cells[i]), v.failure});
  }
  // Numbers by size, words by letter.
  for (const auto& [name, set] : values) {
    std::vector<std::string> sorted(set.begin(), set.end());
    std::ranges::stable_sort(sorted, [](const std::string& a, const std::string& b) {
      const auto is_number = [](const std::string& s) {
        return s.find_first_not_of("0123456789") == std::string::npos;
      };
      if (is_number(a) && is_number(b)) {
        return a.size() != b.size() ? a.size() < b.size() : a < b;
      }
      return is_number(a) && !is_number(b);
    });
    result.dimensions[name] = std::move(sorted);
  }
  return result;
}

}  // namespace

Expected<SuiteResult> run_cells(const std::vector<ContractCell>& cells, SuiteExecutor& executor,
                                const SuiteOptions& options) {
  if (Status status = check_distinct(cells); !status.ok()) return status.error();
  std::vector<CellVerdict> verdicts(cells.size());
  std::atomic<std::size_t> next{0};
  std::mutex executor_gate;
  std::mutex progress_gate;
  const auto work = [&] {
    for (std::size_t i = next++; i < cells.size(); i = next++) {
      verdicts[i] = judge_cell(cells[i], executor, executor_gate);
      if (!options.on_cell) continue;
      const std::lock_guard lock(progress_gate);
      options.on_cell();
    }
  };
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int threads = std::clamp(options.threads > 0 ? options.threads : cores, 1, k_threads_max);
  std::vector<std::jthread> workers;
  for (int t = 1; t < threads; ++t) workers.emplace_back(work);
  work();
  workers.clear();
  return summarise(cells, verdicts);
}

}  // namespace splitwave
