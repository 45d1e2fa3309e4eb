// Time on the GPU. Owns event timing of launches and graph replays, and an explicit L2 flush. Only
// in builds with CUDA; needs no kernel of its own. Called by the bench, the experiment runner and
// `tune` for CUDA arms. Rotation (rotation.h) is the other way to a cold cache, without the extra
// write traffic of a flush between calls.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

#include "splitwave/status.h"

namespace splitwave::measure {

// A pair of events. One timing at a time; the resolution is about 0.5 us, so time enough calls.
class EventTimer {
 public:
  [[nodiscard]] static Expected<EventTimer> create();
  EventTimer(EventTimer&& other) noexcept;
  EventTimer& operator=(EventTimer&& other) noexcept;
  ~EventTimer();

  [[nodiscard]] Status start(cudaStream_t stream);
  // Waits for everything enqueued since start(), and returns the time on the device.
  [[nodiscard]] Expected<double> stop_us(cudaStream_t stream);

 private:
  EventTimer() = default;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
};

// Mean time of one of `replays` back-to-back launches of the graph. before_each (optional) enqueues
// untimed work, a flush say, before each replay; then each replay is timed by itself and the mean
// is taken, since the untimed work must lie outside the events.
[[nodiscard]] Expected<double> time_graph_us(cudaGraphExec_t graph, cudaStream_t stream,
                                             int replays,
                                             const std::function<Status()>& before_each = nullptr);

// A scratch buffer of twice the L2; flush() overwrites it, which evicts everything else.
class L2Flush {
 public:
  [[nodiscard]] static Expected<L2Flush> create(int device);
  L2Flush(L2Flush&& other) noexcept;
  L2Flush& operator=(L2Flush&& other) noexcept;
  ~L2Flush();

  [[nodiscard]] Status flush(cudaStream_t stream);
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  L2Flush() = default;
  void* buffer_ = nullptr;
  std::int64_t bytes_ = 0;
  int fill_ = 0;
};

}  // namespace splitwave::measure
