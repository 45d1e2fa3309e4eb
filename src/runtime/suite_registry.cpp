// Which operators have a suite.
#include "runtime/suite_registry.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "runtime/ops_suites.h"
#include "runtime/suite_executors.h"

namespace splitwave {
namespace {

Expected<SuiteResult> run_sparse_decode(const SuiteRequest& request) {
  const bool is_cpu = request.backend == Backend::cpu;
  std::unique_ptr<SuiteExecutor> executor;
  if (is_cpu) {
    executor = make_cpu_suite_executor(request.threads);
  } else {
    Expected<std::unique_ptr<SuiteExecutor>> made = make_cuda_suite_executor(request.device);
    if (!made.ok()) return made.error();
    executor = std::move(*made);
  }
  const std::vector<ContractCell> cells =
      decode_cells(is_cpu ? cpu_suite_traits() : cuda_suite_traits(), request.size);
  if (request.on_start) request.on_start(static_cast<std::int64_t>(cells.size()));
  return run_cells(cells, *executor, {.threads = request.threads, .on_cell = request.on_cell});
}

constexpr std::array k_suites{
    OpSuite{"sparse_decode", "sparse MLA decode over one or two paged caches", run_sparse_decode},
    OpSuite{"indexer", "indexer logits over paged keys", run_indexer_suite},
    OpSuite{"topk", "exact top-k as index lists", run_topk_suite},
    OpSuite{"select", "logits, top-k and slots in one call", run_select_suite},
    OpSuite{"cache_write", "cache rows, indexer keys and queries, byte for byte",
            run_cache_write_suite},
    OpSuite{"compressor", "compressed entries and their state, bit for bit", run_compressor_suite},
};

}  // namespace

std::span<const OpSuite> op_suites() { return k_suites; }

const OpSuite* find_op_suite(std::string_view op) {
  const auto found = std::ranges::find(k_suites, op, &OpSuite::op);
  return found == k_suites.end() ? nullptr : &*found;
}

}  // namespace splitwave
