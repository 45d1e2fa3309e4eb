// Runs one operator's cases on the backend that the request names.
#include "runtime/ops_suites.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/ops_cases.h"

namespace splitwave {
namespace {

Expected<SuiteResult> run_cases(const std::vector<OpsCase>& cases, const SuiteRequest& request) {
  std::unique_ptr<OpsMemory> memory = make_host_memory();
  if (request.backend == Backend::cuda) {
    Expected<std::unique_ptr<OpsMemory>> device = make_device_memory(request.device);
    if (!device) return device.error();
    memory = std::move(*device);
  }
  OpsTarget target;
  target.options.backend = request.backend;
  target.options.device = request.device;
  target.options.threads = request.threads;
  target.options.read_environment = false;
  target.memory = memory.get();
  if (request.on_start) request.on_start(static_cast<std::int64_t>(cases.size()));
  SuiteResult result;
  for (const OpsCase& one : cases) {
    const OpsOutcome outcome = one.run(target);
    ++result.cases;
    ++result.families[one.op];
    result.worst_rel_l2 = std::max(result.worst_rel_l2, outcome.worst);
    for (const auto& [name, value] : one.dimensions) {
      std::vector<std::string>& values = result.dimensions[name];
      if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
    }
    if (!outcome.failure.empty()) {
      ++result.failed;
      result.failures.push_back({describe(one), outcome.failure});
    }
    if (request.on_cell) request.on_cell();
  }
  return result;
}

bool is_full(const SuiteRequest& request) { return request.size == SuiteSize::full; }

}  // namespace

Expected<SuiteResult> run_indexer_suite(const SuiteRequest& request) {
  return run_cases(indexer_cases(is_full(request)), request);
}
Expected<SuiteResult> run_topk_suite(const SuiteRequest& request) {
  return run_cases(topk_cases(is_full(request)), request);
}
Expected<SuiteResult> run_select_suite(const SuiteRequest& request) {
  return run_cases(select_cases(is_full(request)), request);
}
Expected<SuiteResult> run_cache_write_suite(const SuiteRequest& request) {
  return run_cases(cache_write_cases(is_full(request)), request);
}
Expected<SuiteResult> run_compressor_suite(const SuiteRequest& request) {
  return run_cases(compressor_cases(is_full(request)), request);
}

}  // namespace splitwave
