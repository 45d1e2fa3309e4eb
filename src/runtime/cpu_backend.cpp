// The CPU backend: one launch shape a batch size, made at creation, over the decode engine.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/cpu/cpu_variants.h"
#include "kernels/cpu/decode_engine.h"
#include "kernels/cpu/worker_pool.h"
#include "plan/planner.h"
#include "runtime/backend.h"

namespace splitwave {
namespace {

// Cores that this process may use.
int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line;
  while (std::getline(cpuinfo, line)) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

class CpuBackend final : public DecodeBackend {
 public:
  CpuBackend(const ProblemSpec& spec, cpu::CpuCandidates candidates, DeviceSpec device,
             std::vector<Plan> plans)
      : heads_(spec.heads),
        traits_(std::move(candidates.traits)),
        device_(std::move(device)),
        plans_(std::move(plans)),
        engine_(spec, *candidates.kernels, limits(spec)) {
    for (const Plan& plan : plans_) trait_of_plan_.push_back(trait_index(plan.variant));
  }

  Status run(const DecodeCall& call) override {
    const Plan& plan = plan_for(call.rows);
    engine_.run(call, {.block_heads = std::min(plan.block_heads, heads_),
                       .tile_rows = plan.tile_rows,
                       .chunk_rows = plan.chunk_rows,
                       .prefetch = plan.prefetch});
    return {};
  }
  Status run_in(const DecodeCall& call, void* /*workspace*/) override { return run(call); }
  [[nodiscard]] const DeviceSpec& device() const override { return device_; }
  [[nodiscard]] const Plan& plan_for(int rows) const override {
    SPLITWAVE_CHECK(rows >= 0 && rows < static_cast<int>(plans_.size()),
                    "rows = " + std::to_string(rows));
    return plans_[static_cast<std::size_t>(rows)];
  }
  [[nodiscard]] const VariantTraits& traits_for(int rows) const override {
    (void)plan_for(rows);
    return traits_[trait_of_plan_[static_cast<std::size_t>(rows)]];
  }
  [[nodiscard]] std::int64_t workspace_bytes() const override { return engine_.workspace_bytes(); }
  [[nodiscard]] std::int64_t caller_workspace_bytes() const override { return 0; }

 private:
  [[nodiscard]] cpu::EngineLimits limits(const ProblemSpec& spec) const {
    cpu::EngineLimits made;
    made.threads = device_.sm_count;
    made.heads = spec.heads;
    made.block_heads_max = 1;
    made.tile_rows_max = 1;
    for (const Plan& plan : plans_) {
      made.block_heads_max = std::max(made.block_heads_max, std::min(plan.block_heads, spec.heads));
      made.tile_rows_max = std::max(made.tile_rows_max, plan.tile_rows);
    }
    return made;
  }
  [[nodiscard]] std::size_t trait_index(const std::string& name) const {
    for (std::size_t i = 0; i < traits_.size(); ++i) {
      if (traits_[i].name == name) return i;
    }
    SPLITWAVE_CHECK(false, "the planner chose '" + name + "', which no candidate is called");
    return 0;
  }

  int heads_;
  std::vector<VariantTraits> traits_;
  DeviceSpec device_;
  std::vector<Plan> plans_;  // index: rows
  std::vector<std::size_t> trait_of_plan_;
  cpu::DecodeEngine engine_;
};

}  // namespace

DeviceSpec cpu_device(int threads) {
  DeviceSpec device;
  device.name = "cpu";
  device.product = processor_name();
  device.arch = 0;
  device.sm_count = threads > 0 ? threads : usable_cores();
  device.max_threads_per_sm = 1;
  device.max_ctas_per_sm = 1;
  device.l2_bytes = std::max(0L, sysconf(_SC_LEVEL2_CACHE_SIZE));
  device.source = "/proc/cpuinfo, sched_getaffinity, sysconf";
  return device;
}

std::vector<VariantListing> cpu_variant_listings() {
  std::vector<VariantListing> made;
  const cpu::KernelListings& tables = cpu::all_kernels();
  for (int i = 0; i < tables.count; ++i) {
    const cpu::KernelListing& table = tables.items[i];
    for (const KvFormat format : {KvFormat::v4, KvFormat::v32}) {
      for (VariantTraits& traits :
           cpu::variants_of(table.isa, table.arithmetic, format, cpu::k_tile_rows_default)) {
        made.push_back(
            {.traits = std::move(traits),
             .runnable = table.is_runnable,
             .why_not = table.is_runnable ? "" : std::string("this processor lacks ") + table.isa});
      }
    }
  }
  return made;
}

Expected<std::unique_ptr<DecodeBackend>> make_cpu_backend(const ProblemSpec& spec,
                                                          const PlanOverrides& overrides,
                                                          int threads) {
  if (threads < 0 || threads > cpu::WorkerPool::k_threads_max) {
    return bad_input("threads = " + std::to_string(threads) + ": 0 (every core) to " +
                     std::to_string(cpu::WorkerPool::k_threads_max) + " is required");
  }
  Expected<cpu::CpuCandidates> candidates = cpu::cpu_candidates(spec.format, overrides);
  if (!candidates) return candidates.error();
  // fp32 arithmetic keeps every bf16 and every f16 value: one table serves both operand types.
  for (VariantTraits& traits : candidates->traits) traits.operands = spec.operands;
  DeviceSpec device = cpu_device(threads);
  std::vector<Plan> plans;
  for (int rows = 0; rows <= spec.rows_max; ++rows) {
    Expected<Plan> plan = choose_plan(spec, device, candidates->traits, rows, overrides);
    if (!plan) return plan.error();
    if (plan->prefetch < 0 || plan->prefetch > cpu::k_prefetch_rows_max) {
      return bad_input("prefetch=" + std::to_string(plan->prefetch) + ": the CPU kernels take 0.." +
                       std::to_string(cpu::k_prefetch_rows_max) + " KV rows");
    }
    plans.push_back(std::move(*plan));
  }
  return std::unique_ptr<DecodeBackend>(std::make_unique<CpuBackend>(
      spec, std::move(*candidates), std::move(device), std::move(plans)));
}

}  // namespace splitwave
