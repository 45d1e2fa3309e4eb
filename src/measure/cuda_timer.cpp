// CUDA events and the L2 flush, on the runtime API.
#include "measure/cuda_timer.h"

#include <string>
#include <utility>

#include "measure/rotation.h"

namespace splitwave::measure {
namespace {

Status checked(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return {};
  return environment_error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(code));
}

}  // namespace

Expected<EventTimer> EventTimer::create() {
  EventTimer timer;
  if (Status s = checked(cudaEventCreate(&timer.start_), "create an event"); !s) return s.error();
  if (Status s = checked(cudaEventCreate(&timer.stop_), "create an event"); !s) return s.error();
  return timer;
}

EventTimer::EventTimer(EventTimer&& other) noexcept
    : start_(std::exchange(other.start_, nullptr)), stop_(std::exchange(other.stop_, nullptr)) {}

EventTimer& EventTimer::operator=(EventTimer&& other) noexcept {
  std::swap(start_, other.start_);
  std::swap(stop_, other.stop_);
  return *this;
}

EventTimer::~EventTimer() {
  if (start_ != nullptr) (void)cudaEventDestroy(start_);
  if (stop_ != nullptr) (void)cudaEventDestroy(stop_);
}

Status EventTimer::start(cudaStream_t stream) {
  return checked(cudaEventRecord(start_, stream), "record an event");
}

Expected<double> EventTimer::stop_us(cudaStream_t stream) {
  if (Status s = checked(cudaEventRecord(stop_, stream), "record an event"); !s) return s.error();
  if (Status s = checked(cudaEventSynchronize(stop_), "wait for an event"); !s) return s.error();
  float elapsed_ms = 0;
  if (Status s = checked(cudaEventElapsedTime(&elapsed_ms, start_, stop_), "read an event"); !s) {
    return s.error();
  }
  return static_cast<double>(elapsed_ms) * 1e3;
}

Expected<double> time_graph_us(cudaGraphExec_t graph, cudaStream_t stream, int replays,
                               const std::function<Status()>& before_each) {
  if (replays < 1) {
    return bad_input("replays is " + std::to_string(replays) + "; it must be at least 1");
  }
  Expected<EventTimer> timer = EventTimer::create();
  if (!timer) return timer.error();
  const int timings = before_each ? replays : 1;
  const int launches = before_each ? 1 : replays;
  double total_us = 0;
  for (int timing = 0; timing < timings; ++timing) {
    if (before_each) {
      if (Status s = before_each(); !s) return s.error();
    }
    if (Status s = timer->start(stream); !s) return s.error();
    for (int launch = 0; launch < launches; ++launch) {
      if (Status s = checked(cudaGraphLaunch(graph, stream), "launch a graph"); !s) {
        return s.error();
      }
    }
    const Expected<double> elapsed_us = timer->stop_us(stream);
    if (!elapsed_us) return elapsed_us.error();
    total_us += *elapsed_us;
  }
  return total_us / replays;
}

Expected<L2Flush> L2Flush::create(int device) {
  int l2_bytes = 0;
  if (Status s = checked(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device),
                         "read the L2 size");
      !s) {
    return s.error();
  }
  L2Flush flush;
  flush.bytes_ = static_cast<std::int64_t>(l2_bytes) * k_rotation_cache_multiple;
  if (Status s = checked(cudaMalloc(&flush.buffer_, static_cast<std::size_t>(flush.bytes_)),
                         "allocate the L2 flush buffer");
      !s) {
    return s.error();
  }
  return flush;
}

L2Flush::L2Flush(L2Flush&& other) noexcept
    : buffer_(std::exchange(other.buffer_, nullptr)), bytes_(other.bytes_), fill_(other.fill_) {}

L2Flush& L2Flush::operator=(L2Flush&& other) noexcept {
  std::swap(buffer_, other.buffer_);
  std::swap(bytes_, other.bytes_);
  std::swap(fill_, other.fill_);
  return *this;
}

L2Flush::~L2Flush() {
  if (buffer_ != nullptr) (void)cudaFree(buffer_);
}

Status L2Flush::flush(cudaStream_t stream) {
  // A changing value: writing what the lines hold already could be compressed away.
  fill_ = (fill_ + 1) & 0xff;
  return checked(cudaMemsetAsync(buffer_, fill_, static_cast<std::size_t>(bytes_), stream),
                 "flush the L2");
}

}  // namespace splitwave::measure
