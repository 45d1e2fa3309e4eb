// The decode suite on the CPU backend: host memory in, host memory out.
#include <memory>
#include <utility>

#include "runtime/suite_executors.h"
#include "splitwave/decoder.h"

namespace splitwave {
namespace {

class CpuSuiteExecutor final : public SuiteExecutor {
 public:
  explicit CpuSuiteExecutor(int threads) : threads_(threads) {}

  Status run(const SuiteRun& run, std::span<const HostCall> calls) override {
    if (run.execution != "direct")
      return bad_input("the CPU backend has no execution '" + run.execution + "'");
    Expected<PlanOverrides> overrides = parse_plan_overrides(run.plan);
    if (!overrides.ok()) return overrides.error();
    Expected<Decoder> decoder =
        Decoder::create(run.spec, {.backend = Backend::cpu,
                                   .threads = run.threads > 0 ? run.threads : threads_,
                                   .overrides = *overrides,
                                   .read_environment = false});
    if (!decoder.ok()) return decoder.error();
    for (const HostCall& call : calls) {
      if (Status status = decoder->run(call.call); !status.ok()) return status;
    }
    return {};
  }

 private:
  int threads_;
};

}  // namespace

std::unique_ptr<SuiteExecutor> make_cpu_suite_executor(int threads) {
  return std::make_unique<CpuSuiteExecutor>(threads);
}

}  // namespace splitwave
