// What the GPU tests share: a synthetic problem on the device, and how a result is reported. No
// test framework: a bare GPU machine has none. Called by gpu_main.cpp's suites.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "formats/synthetic.h"
#include "kernels/cuda/registry.h"
#include "runtime/cuda_backend.h"

namespace splitwave::gpu {

#define GPU_REQUIRE(expression)                                                                   \
  do {                                                                                            \
    const cudaError_t code_ = (expression);                                                       \
    if (code_ != cudaSuccess) {                                                                   \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #expression, cudaGetErrorString(code_)); \
      std::exit(3);                                                                               \
    }                                                                                             \
  } while (false)

class DeviceBytes {
 public:
  DeviceBytes() = default;
  explicit DeviceBytes(std::size_t bytes) : bytes_(bytes) {
    if (bytes > 0) GPU_REQUIRE(cudaMalloc(&data_, bytes));
  }
  DeviceBytes(DeviceBytes&& o) noexcept : data_(o.data_), bytes_(o.bytes_) { o.data_ = nullptr; }
  DeviceBytes& operator=(DeviceBytes&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~DeviceBytes() { cudaFree(data_); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// A synthetic problem with a copy of every buffer on the device.
class DeviceProblem {
 public:
  explicit DeviceProblem(const SyntheticOptions& options);
  const DecodeCall& call() const { return call_; }
  SyntheticProblem& host() { return host_; }
  void poison_outputs();               // on both sides
  void download();                     // out and lse to the host problem
  std::vector<std::uint8_t> output();  // out and lse bytes of the host problem

 private:
  SyntheticProblem host_;
  std::vector<DeviceBytes> memory_;
  DecodeCall call_;
};

struct Report {
  int cases = 0;
  std::vector<std::string> failures;
  double worst_rel_l2 = 0;
  std::vector<std::string> families;

  void check(bool ok, const std::string& what) {
    ++cases;
    if (!ok) {
      failures.push_back(what);
      if (failures.size() < 40) std::printf("FAILED: %s\n", what.c_str());
    }
  }
};

// The backend with a forced variant (empty: the planner's) or null when it does not serve the spec.
std::unique_ptr<CudaBackend> make_backend(const ProblemSpec& spec, const std::string& variant,
                                          PlanOverrides overrides = {});
// Names of the compiled variants of the format that run here.
std::vector<VariantTraits> variants_here(KvFormat format);
void run_and_wait(CudaBackend& backend, const DecodeCall& call);

void check_accuracy(Report& report, bool quick);
void check_exactness(Report& report, bool quick);
void check_dequantisation(Report& report);
void check_contract(Report& report, bool quick);
void run_small_set();
void run_bench(JsonWriter& json, bool quick, bool chosen, const std::string& only_shape);

}  // namespace splitwave::gpu
