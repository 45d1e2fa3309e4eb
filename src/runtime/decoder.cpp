// Decoder over the two backends: choice, checks, the printed plan table.
#include "splitwave/decoder.h"

#include <cstdio>
#include <string>
#include <utility>

#include "formats/merge.h"
#include "runtime/backend.h"
#include "runtime/check_call.h"
#include "runtime/environment.h"

namespace splitwave {

struct Decoder::Impl {
  ProblemSpec spec;
  Backend chosen = Backend::cpu;
  std::string reason;
  std::unique_ptr<DecodeBackend> backend;
  bool owns_workspace = true;
};

namespace {

struct Choice {
  Backend backend = Backend::cpu;
  std::string reason;
  std::unique_ptr<DecodeBackend> made;
};

// Auto takes CUDA if it can be made for this problem. A refusal of the problem itself (bad input:
// an override, a shape) is not a missing device: it is reported, not papered over by the CPU.
Expected<Choice> choose_backend(const ProblemSpec& spec, Backend asked, const std::string& asker,
                                const PlanOverrides& overrides, const DecoderOptions& options,
                                int threads) {
  std::string reason = asker;
  if (asked != Backend::cpu) {
    Expected<std::unique_ptr<DecodeBackend>> cuda =
        make_cuda_backend(spec, overrides, options.device, options.owns_workspace);
    if (cuda) {
      if (asked == Backend::auto_detect) reason = "auto: CUDA device present";
      return Choice{Backend::cuda, reason, std::move(*cuda)};
    }
    if (asked == Backend::cuda || cuda.error().kind != ErrorKind::environment) return cuda.error();
    reason = "auto: " + cuda.error().message;
  }
  Expected<std::unique_ptr<DecodeBackend>> cpu = make_cpu_backend(spec, overrides, threads);
  if (!cpu) return cpu.error();
  return Choice{Backend::cpu, reason, std::move(*cpu)};
}

bool is_same_choice(const Plan& a, const Plan& b) {
  return a.mode == b.mode && a.numerics == b.numerics && a.variant == b.variant &&
         a.chunk_rows == b.chunk_rows && a.block_heads == b.block_heads &&
         a.tile_rows == b.tile_rows && a.prefetch == b.prefetch && a.splits == b.splits &&
         a.ctas_per_sm == b.ctas_per_sm;
}

void print_choice(const Plan& plan, int rows_first, int rows_last) {
  std::fprintf(stderr,
               "splitwave: plan: rows %d..%d %s %s variant %s block_heads %d tile_rows %d "
               "chunk_rows %d splits %d prefetch %d\n",
               rows_first, rows_last, plan.mode == SplitMode::exact ? "exact" : "free",
               plan.numerics == NumericsClass::throughput ? "throughput" : "latency",
               plan.variant.c_str(), plan.block_heads, plan.tile_rows, plan.chunk_rows, plan.splits,
               plan.prefetch);
  for (const std::string& reason : plan.reasons) {
    std::fprintf(stderr, "splitwave: plan:   %s\n", reason.c_str());
  }
}

// SPLITWAVE_TRACE=plan: each distinct choice once, for the operator. Printing is what the variable
// asks for; nothing else in the library prints.
void trace_plans(const DecodeBackend& backend, int rows_max) {
  int first = 1;
  for (int rows = 2; rows <= rows_max + 1; ++rows) {
    if (rows <= rows_max && is_same_choice(backend.plan_for(first), backend.plan_for(rows))) {
      continue;
    }
    print_choice(backend.plan_for(first), first, rows - 1);
    first = rows;
  }
}

}  // namespace

Expected<Decoder> Decoder::create(const ProblemSpec& spec, const DecoderOptions& options) {
  Environment environment;
  if (options.read_environment) {
    Expected<Environment> read = read_environment();
    if (!read) return read.error();
    environment = std::move(*read);
  }
  if (const Status status = check_problem_spec(spec); !status) return status.error();
  Backend asked = options.backend;
  std::string asker = "asked for by the caller";
  if (asked == Backend::auto_detect && environment.backend != Backend::auto_detect) {
    asked = environment.backend;
    asker = "asked for by SPLITWAVE_BACKEND";
  }
  const int threads = options.threads != 0 ? options.threads : environment.threads.value_or(0);
  const PlanOverrides overrides = merged(environment.plan, options.overrides);
  Expected<Choice> choice = choose_backend(spec, asked, asker, overrides, options, threads);
  if (!choice) return choice.error();
  if (environment.trace_plan) {
    std::fprintf(stderr, "splitwave: plan: backend %s (%s)\n",
                 choice->backend == Backend::cpu ? "cpu" : "cuda", choice->reason.c_str());
    trace_plans(*choice->made, spec.rows_max);
  }
  auto impl = std::make_unique<Impl>();
  impl->spec = spec;
  impl->chosen = choice->backend;
  impl->reason = std::move(choice->reason);
  impl->backend = std::move(choice->made);
  impl->owns_workspace = options.owns_workspace;
  return Decoder(std::move(impl));
}

Decoder::Decoder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;
Decoder::~Decoder() = default;

Status Decoder::run(const DecodeCall& call) {
  if (!impl_->owns_workspace) return run(call, nullptr);
  if (Status status = check_decode_call(impl_->spec, call); !status) return status;
  return impl_->backend->run(call);
}

Status Decoder::run(const DecodeCall& call, void* workspace) {
  if (Status status = check_decode_call(impl_->spec, call); !status) return status;
  const std::int64_t bytes = impl_->backend->caller_workspace_bytes();
  if (Status status = check_workspace(workspace, bytes); !status) return status;
  return impl_->backend->run_in(call, workspace);
}

const ProblemSpec& Decoder::spec() const { return impl_->spec; }
const DeviceSpec& Decoder::device() const { return impl_->backend->device(); }
Backend Decoder::backend() const { return impl_->chosen; }
const std::string& Decoder::backend_reason() const { return impl_->reason; }
const Plan& Decoder::plan_for(int rows) const { return impl_->backend->plan_for(rows); }
const VariantTraits& Decoder::traits_for(int rows) const {
  return impl_->backend->traits_for(rows);
}
std::int64_t Decoder::workspace_bytes() const { return impl_->backend->workspace_bytes(); }
std::int64_t Decoder::caller_workspace_bytes() const {
  return impl_->backend->caller_workspace_bytes();
}

std::vector<VariantListing> list_variants() {
  std::vector<VariantListing> all = cpu_variant_listings();
  for (VariantListing& listing : cuda_variant_listings()) all.push_back(std::move(listing));
  return all;
}

std::vector<DeviceSpec> list_devices() {
  std::vector<DeviceSpec> all = {cpu_device(0)};
  for (DeviceSpec& device : cuda_devices()) all.push_back(std::move(device));
  return all;
}

void merge_partials(std::uint16_t* out_a, float* lse_a, const std::uint16_t* out_b,
                    const float* lse_b, std::int64_t n) {
  merge_decode_partials(out_a, lse_a, out_b, lse_b, n);
}

}  // namespace splitwave
