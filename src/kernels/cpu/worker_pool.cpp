// Epoch-counted hand-over: the caller publishes a job and raises the epoch; each worker runs it
// once.
#include "kernels/cpu/worker_pool.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace splitwave::cpu {
namespace {

// About 20 us on a 2 GHz core with a 140-cycle pause (Skylake-SP), the time between two layers'
// attention calls; a longer gap is worth the wake-up.
constexpr int k_spins_max = 300;

}  // namespace

WorkerPool::WorkerPool(int threads) : threads_(threads) {
  SPLITWAVE_CHECK(threads >= 1 && threads <= k_threads_max, "threads = " + std::to_string(threads));
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  for (int worker = 1; worker < threads; ++worker) {
    workers_.emplace_back([this, worker] { worker_loop(worker); });
  }
}

WorkerPool::~WorkerPool() {
  is_stopping_ = true;
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
}

std::uint32_t WorkerPool::await_epoch(std::uint32_t seen) {
  for (int spin = 0; spin < k_spins_max; ++spin) {
    const std::uint32_t now = epoch_.load(std::memory_order_acquire);
    if (now != seen) return now;
    spin_pause();
  }
  epoch_.wait(seen, std::memory_order_acquire);
  return epoch_.load(std::memory_order_acquire);
}

void WorkerPool::worker_loop(int worker) {
  std::uint32_t seen = 0;
  while (true) {
    seen = await_epoch(seen);
    if (is_stopping_) return;
    if (worker < active_) function_(context_, worker);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

void WorkerPool::run_raw(int workers, Function function, void* context) {
  const int active = std::clamp(workers, 1, threads_);
  if (active == 1) {
    function(context, 0);
    return;
  }
  function_ = function;
  context_ = context;
  active_ = active;
  // Every worker answers every epoch, also those that this job does not need: none may still be
  // reading the job's fields when the next one is written.
  running_.store(threads_ - 1, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  function(context, 0);
  for (int spin = 0; spin < k_spins_max; ++spin) {
    if (running_.load(std::memory_order_acquire) == 0) return;
    spin_pause();
  }
  for (int left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire)) {
    running_.wait(left, std::memory_order_acquire);
  }
}

}  // namespace splitwave::cpu
