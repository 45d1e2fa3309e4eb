// The pool's hand-over: every worker runs every job exactly once, jobs follow one another without
// mixing, and a sleeping pool wakes.
#include "kernels/cpu/worker_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>

namespace splitwave::cpu {
namespace {

TEST(WorkerPool, RunsEveryWorkerExactlyOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    WorkerPool pool(threads);
    for (int workers = 1; workers <= threads + 1; ++workers) {
      std::array<std::atomic<int>, 8> calls{};
      pool.run(workers, [&](int worker) { ++calls[static_cast<std::size_t>(worker)]; });
      for (int worker = 0; worker < threads; ++worker) {
        EXPECT_EQ(calls[static_cast<std::size_t>(worker)], worker < workers ? 1 : 0)
            << "worker " << worker << " of " << threads << ", " << workers << " asked for";
      }
    }
  }
}

TEST(WorkerPool, NeverMixesConsecutiveJobs) {
  WorkerPool pool(3);
  std::atomic<int> inside{0};
  for (int job = 0; job < 5000; ++job) {
    const int before = inside.load();
    ASSERT_EQ(before, 3 * job);
    pool.run(3, [&](int) { ++inside; });
  }
}

TEST(WorkerPool, WakesAfterSleeping) {
  WorkerPool pool(2);
  for (int pause_ms : {0, 5, 20}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    std::atomic<int> calls{0};
    pool.run(2, [&](int) { ++calls; });
    EXPECT_EQ(calls, 2);
  }
}

TEST(WorkerPool, StopsWithoutEverRunning) { const WorkerPool pool(4); }

}  // namespace
}  // namespace splitwave::cpu
