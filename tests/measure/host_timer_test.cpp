// Host clocks: which time they count. No durations are asserted against a limit.
#include "measure/host_timer.h"

#include <gtest/gtest.h>

#include <thread>

namespace splitwave::measure {
namespace {

// Until the calling thread has used this much CPU time.
void work_for_ns(std::int64_t ns) {
  const std::int64_t start = thread_cpu_ns();
  while (thread_cpu_ns() - start < ns) {
  }
}

TEST(HostTimer, MonotonicClockNeverGoesBack) {
  std::int64_t last = monotonic_ns();
  for (int i = 0; i < 10'000; ++i) {
    const std::int64_t now = monotonic_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(HostTimer, ThreadTimeCountsThisThreadOnlyAndProcessTimeCountsBoth) {
  constexpr std::int64_t work_ns = 20'000'000;
  const std::int64_t thread_start = thread_cpu_ns();
  const std::int64_t process_start = process_cpu_ns();
  std::thread([] { work_for_ns(work_ns); }).join();
  EXPECT_LT(thread_cpu_ns() - thread_start, work_ns);
  EXPECT_GE(process_cpu_ns() - process_start, work_ns);
}

TEST(HostTimer, StopwatchCountsAtLeastTheCpuTimeSpent) {
  const Stopwatch watch;
  work_for_ns(2'000'000);
  EXPECT_GE(watch.elapsed_us(), 2'000);
}

}  // namespace
}  // namespace splitwave::measure
