// The decode call: create once, run many times. Owns Decoder; src/runtime implements it over the
// CPU and CUDA backends. After creation a run allocates nothing, synchronises nothing, compiles
// nothing and is safe to capture in a CUDA graph on its first call.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "splitwave/plan.h"
#include "splitwave/problem.h"
#include "splitwave/status.h"

namespace splitwave {

enum class Backend : std::uint8_t { auto_detect, cpu, cuda };

struct DecoderOptions {
  Backend backend = Backend::auto_detect;  // SPLITWAVE_BACKEND overrides auto_detect
  int device = 0;                          // CUDA ordinal
  int threads = 0;                         // CPU workers; 0: SPLITWAVE_THREADS, else all cores
  PlanOverrides overrides;                 // merged over SPLITWAVE_PLAN, field by field
  bool read_environment = true;            // false: ignore the SPLITWAVE_* variables
  bool owns_workspace = true;              // false: each run brings caller_workspace_bytes()
};

class Decoder {
 public:
  // Refuses a spec that no variant serves, naming what is required, offered and missing.
  [[nodiscard]] static Expected<Decoder> create(const ProblemSpec& spec,
                                                const DecoderOptions& options = {});
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;
  ~Decoder();

  // Refuses a call whose host-visible arguments break the contract, before anything is launched.
  // Not thread-safe on one Decoder; two Decoders may run concurrently.
  [[nodiscard]] Status run(const DecodeCall& call);
  // The same with the caller's workspace: a multiple of 256 as address, caller_workspace_bytes()
  // long, unused by others until the call (on CUDA: the stream's work) has finished; its content
  // never matters. A framework that allocates by stream gives each call its own and then shares one
  // Decoder among streams; on the CUDA backend such calls are thread-safe.
  [[nodiscard]] Status run(const DecodeCall& call, void* workspace);

  [[nodiscard]] const ProblemSpec& spec() const;
  [[nodiscard]] const DeviceSpec& device() const;
  [[nodiscard]] Backend backend() const;                    // cpu or cuda, never auto_detect
  [[nodiscard]] const std::string& backend_reason() const;  // why it was chosen
  [[nodiscard]] const Plan& plan_for(int rows) const;       // 0 <= rows <= rows_max
  [[nodiscard]] const VariantTraits& traits_for(int rows) const;
  [[nodiscard]] std::int64_t workspace_bytes() const;
  [[nodiscard]] std::int64_t caller_workspace_bytes() const;  // 0 on the CPU backend

 private:
  struct Impl;
  explicit Decoder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Every variant of this build, and whether the machine at hand can run it.
struct VariantListing {
  VariantTraits traits;
  bool runnable = false;
  std::string why_not;
};
[[nodiscard]] std::vector<VariantListing> list_variants();

// The devices that this process can use: the CPU first, then each CUDA device.
[[nodiscard]] std::vector<DeviceSpec> list_devices();

// Merges two partial results of the same rows and heads over disjoint key sets (context parallel):
// out_a and lse_a receive the merge. Host memory; +inf lse means empty. n = rows * heads; out is
// bf16 [n, 512], lse fp32 [n], natural log.
void merge_partials(std::uint16_t* out_a, float* lse_a, const std::uint16_t* out_b,
                    const float* lse_b, std::int64_t n);

}  // namespace splitwave
