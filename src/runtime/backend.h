// The seam between Decoder and a backend. Owns DecodeBackend; cpu_backend.cpp and cuda_backend.cpp
// implement it. decoder.cpp checks the call's host-visible arguments before a backend sees it.
#pragma once

#include <memory>
#include <vector>

#include "splitwave/decoder.h"
#include "splitwave/plan.h"
#include "splitwave/problem.h"
#include "splitwave/status.h"

namespace splitwave {

class DecodeBackend {
 public:
  virtual ~DecodeBackend() = default;
  // The call's arguments have passed check_decode_call. Allocates nothing, never synchronises.
  [[nodiscard]] virtual Status run(const DecodeCall& call) = 0;
  // The same in the caller's workspace, which check_workspace has passed.
  [[nodiscard]] virtual Status run_in(const DecodeCall& call, void* workspace) = 0;
  [[nodiscard]] virtual const DeviceSpec& device() const = 0;
  [[nodiscard]] virtual const Plan& plan_for(int rows) const = 0;
  [[nodiscard]] virtual const VariantTraits& traits_for(int rows) const = 0;
  [[nodiscard]] virtual std::int64_t workspace_bytes() const = 0;
  // What run_in needs; 0 where the backend's own memory serves any caller.
  [[nodiscard]] virtual std::int64_t caller_workspace_bytes() const = 0;
};

// overrides are already merged with SPLITWAVE_PLAN.
[[nodiscard]] Expected<std::unique_ptr<DecodeBackend>> make_cpu_backend(
    const ProblemSpec& spec, const PlanOverrides& overrides, int threads);

// Without a CUDA build, or without a usable device: an environment error that says which.
[[nodiscard]] Expected<std::unique_ptr<DecodeBackend>> make_cuda_backend(
    const ProblemSpec& spec, const PlanOverrides& overrides, int device, bool owns_workspace);

// The CPU as a device of so many workers; 0: every core that the process may use.
[[nodiscard]] DeviceSpec cpu_device(int threads);

// What each backend contributes to list_variants and list_devices; CUDA's are empty without it.
[[nodiscard]] std::vector<VariantListing> cpu_variant_listings();
[[nodiscard]] std::vector<VariantListing> cuda_variant_listings();
[[nodiscard]] std::vector<DeviceSpec> cuda_devices();

}  // namespace splitwave
