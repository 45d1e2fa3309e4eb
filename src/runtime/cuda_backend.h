// The CUDA backend. Owns CudaBackend: plans for every batch size, the workspace, the launches of a
// call. Everything is decided, loaded and allocated at creation; a run fills a parameter block and
// launches one to three kernels. The interface below DecodeBackend is for the GPU tests and
// benchmarks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/common/params.h"
#include "kernels/cuda/launch.h"
#include "plan/pieces.h"
#include "runtime/backend.h"

namespace splitwave {

// What a test or a benchmark may force. None of it changes a bit of a result, as tests/gpu shows.
struct CudaHooks {
  bool runs_schedule = true;
  bool runs_decode = true;
  bool runs_combine = true;
  int piece_chunks = 0;           // > 0: computed pieces of so many chunks, whatever the lengths
  bool uses_schedule = true;      // false: computed pieces although the call brings lengths
  int ctas = 0;                   // > 0: so many CTAs, at most what runs at once
  bool always_schedules = false;  // lengths given: the schedule, however few the chunks
  bool folds_in_decode = true;    // false: the combine kernel, also where the decode kernel could
};

class CudaBackend final : public DecodeBackend {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<CudaBackend>> create(const ProblemSpec& spec,
                                                                     const PlanOverrides& overrides,
                                                                     int device,
                                                                     bool owns_workspace = true);
  ~CudaBackend() override;

  Status run(const DecodeCall& call) override { return run_in(call, workspace_); }
  Status run_in(const DecodeCall& call, void* workspace) override;
  [[nodiscard]] const DeviceSpec& device() const override { return device_; }
  [[nodiscard]] const Plan& plan_for(int rows) const override;
  [[nodiscard]] const VariantTraits& traits_for(int rows) const override;
  // Held by this object: 0 if the caller brings it.
  [[nodiscard]] std::int64_t workspace_bytes() const override {
    return workspace_ == nullptr ? 0 : layout_.bytes;
  }
  [[nodiscard]] std::int64_t caller_workspace_bytes() const override { return layout_.bytes; }

  void set_hooks(const CudaHooks& hooks) { hooks_ = hooks; }
  [[nodiscard]] void* workspace() const { return workspace_; }
  // Kernels that run(call) would launch.
  [[nodiscard]] int launches(const DecodeCall& call) const;

 private:
  // What one batch size needs beyond its Plan.
  struct Launch {
    const cuda::VariantLauncher* launcher = nullptr;
    std::size_t trait = 0;
    std::int64_t slots = 0;  // items that run at once
    int chunks = 1;          // of a full-width row, at least 1
    PieceCut cut;            // computed pieces
  };
  struct Layout {  // byte offsets in the workspace
    std::int64_t items = 0, count = 0, row_partials = 0, ml = 0, o = 0, tickets = 0, bytes = 0;
  };

  CudaBackend(const ProblemSpec& spec, DeviceSpec device, int ordinal)
      : spec_(spec), device_(std::move(device)), ordinal_(ordinal) {}
  [[nodiscard]] Status plan_all(const PlanOverrides& overrides);
  [[nodiscard]] Status load_kernels();
  void lay_out();
  [[nodiscard]] Status allocate();
  [[nodiscard]] Status clear_tickets(std::uint32_t* tickets, cudaStream_t stream) const;
  [[nodiscard]] Launch launch_of(const Plan& plan) const;
  [[nodiscard]] std::int64_t partials_max(const Plan& plan, const Launch& launch) const;
  [[nodiscard]] bool is_scheduled(const DecodeCall& call, const Launch& launch) const;
  [[nodiscard]] cuda::DecodeParams params_of(const DecodeCall& call, std::uint8_t* workspace) const;

  ProblemSpec spec_;
  DeviceSpec device_;
  int ordinal_ = 0;
  std::vector<VariantTraits> traits_;
  std::vector<Plan> plans_;       // index: rows
  std::vector<Launch> launches_;  // index: rows
  Layout layout_;
  std::int64_t partial_slots_ = 0;  // scratch slots begin here
  std::uint8_t* workspace_ = nullptr;
  // Zero between calls, so never part of a workspace whose content does not matter: a caller's
  // workspace has its own, cleared before each call.
  std::uint32_t* tickets_ = nullptr;
  std::int64_t tickets_bytes_ = 0;
  CudaHooks hooks_;
};

}  // namespace splitwave
