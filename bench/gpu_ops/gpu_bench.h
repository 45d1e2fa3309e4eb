// What the GPU operator program's parts share: device memory, graph timing, the record. Owns
// nothing of the operators. Used by bench/gpu_ops/*.cpp only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "measure/cuda_timer.h"
#include "splitwave/ops.h"

namespace splitwave::gpu_ops {

// A program, not a library: a CUDA error ends it with its place.
inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "gpu_ops: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(3);
}
inline void check(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "gpu_ops: %s\n", status.error().message.c_str());
  std::exit(3);
}

template <class T>
class Device {
 public:
  explicit Device(std::size_t count) : count_(count) {
    check(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)), "cudaMalloc");
  }
  explicit Device(const std::vector<T>& values) : Device(values.size()) {
    check(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
          "upload");
  }
  Device(Device&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(other.count_) {}
  Device& operator=(Device&&) = delete;
  ~Device() { cudaFree(data_); }
  [[nodiscard]] T* get() const { return data_; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] std::vector<T> download() const {
    std::vector<T> out(count_);
    check(cudaMemcpy(out.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "download");
    return out;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

// The first `bytes` of a pool are random; the rest repeats them on the device.
void fill_pool(std::uint8_t* pool, std::size_t bytes, std::size_t unit_bytes,
               const std::vector<std::uint8_t>& unit);

// bytes a multiple of 64 KiB.
void launch_copy(const void* from, void* to, std::size_t bytes, cudaStream_t stream);

struct Timing {
  double us_median = 0;
  double us_min = 0;
  double us_p90 = 0;
};
// Captures calls(i) for i in [0, count) into one graph on `stream` and times its replays: us of one
// call.
Timing time_calls(cudaStream_t stream, int count, const std::function<Status(int)>& calls);

struct Context {
  cudaStream_t stream = nullptr;
  double copy_gbps = 0;  // measured: bytes read plus bytes written
  JsonWriter* json = nullptr;
  int failed = 0;
};

// Prints a line and adds a point to the open array of points.
void report(Context& context, const char* op, const std::string& shape, const Timing& timing,
            double bytes);

void run_contract(Context& context, bool full);
void run_stress(Context& context);
void run_indexer_bench(Context& context);
void run_topk_bench(Context& context);
void run_writes_bench(Context& context);

}  // namespace splitwave::gpu_ops
