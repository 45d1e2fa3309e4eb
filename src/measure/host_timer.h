// Host clocks. Owns the one way to read time in the project: a monotonic clock for durations and
// the CPU time of the calling thread for work that other processes must not disturb. Called by the
// bench, the experiment runner and `tune`.
#pragma once

#include <cstdint>

namespace splitwave::measure {

[[nodiscard]] std::int64_t monotonic_ns();

// CPU time that the calling thread has used. A worker pool's time is not in it.
[[nodiscard]] std::int64_t thread_cpu_ns();

// CPU time of the whole process, workers included.
[[nodiscard]] std::int64_t process_cpu_ns();

class Stopwatch {
 public:
  Stopwatch() : start_ns_(monotonic_ns()) {}
  void restart() { start_ns_ = monotonic_ns(); }
  [[nodiscard]] double elapsed_us() const {
    return static_cast<double>(monotonic_ns() - start_ns_) * 1e-3;
  }

 private:
  std::int64_t start_ns_;
};

}  // namespace splitwave::measure
