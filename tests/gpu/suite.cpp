// The decode contract suite of `splitwave verify`, on the GPU, in a build without the CPU backend:
// a bare GPU machine has no Highway. Owns that backend's absence and the call of the suite.
#include "gpu_test.h"
#include "runtime/suite_executors.h"

namespace splitwave {

Expected<std::unique_ptr<DecodeBackend>> make_cpu_backend(const ProblemSpec&, const PlanOverrides&,
                                                          int) {
  return environment_error("gpu_check has no CPU backend");
}
DeviceSpec cpu_device(int) { return {}; }
std::vector<VariantListing> cpu_variant_listings() { return {}; }

namespace gpu {

void check_contract(Report& report, bool quick) {
  report.families.push_back(quick ? "the contract suite, quick" : "the contract suite, full");
  const std::vector<ContractCell> cells =
      decode_cells(cuda_suite_traits(), quick ? SuiteSize::quick : SuiteSize::full);
  auto executor = make_cuda_suite_executor(0);
  if (!executor) return report.check(false, executor.error().message);
  const Expected<SuiteResult> result = run_cells(cells, **executor);
  if (!result) return report.check(false, result.error().message);
  report.cases += static_cast<int>(result->cases - result->failed);
  for (const SuiteFailure& f : result->failures) report.check(false, f.key + ": " + f.reason);
}

}  // namespace gpu
}  // namespace splitwave
