// Host clocks by clock_gettime.
#include "measure/host_timer.h"

#include <ctime>

#include "base/check.h"

namespace splitwave::measure {
namespace {

std::int64_t read_ns(clockid_t clock) {
  timespec t{};
  SPLITWAVE_CHECK(clock_gettime(clock, &t) == 0, "clock_gettime refused a POSIX clock");
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

std::int64_t monotonic_ns() { return read_ns(CLOCK_MONOTONIC); }
std::int64_t thread_cpu_ns() { return read_ns(CLOCK_THREAD_CPUTIME_ID); }
std::int64_t process_cpu_ns() { return read_ns(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace splitwave::measure
