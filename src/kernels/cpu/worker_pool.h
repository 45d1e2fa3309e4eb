// A fixed set of threads that run one function together. Owns WorkerPool; used by the decode engine
// and by any other CPU operator. Workers spin for a bounded time, then sleep; a run allocates
// nothing. The caller is worker 0, so a pool of one thread starts none.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace splitwave::cpu {

class WorkerPool {
 public:
  static constexpr int k_threads_max = 1024;

  explicit WorkerPool(int threads);  // 1..k_threads_max
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  [[nodiscard]] int threads() const { return threads_; }

  // Calls body(worker) once for each worker in [0, min(workers, threads())) and returns when all
  // have returned. One run at a time; body must not throw and must not run the pool.
  template <class Body>
  void run(int workers, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run_raw(workers, [](void* context, int worker) { (*static_cast<Plain*>(context))(worker); },
            const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using Function = void (*)(void* context, int worker);
  void run_raw(int workers, Function function, void* context);
  void worker_loop(int worker);
  [[nodiscard]] std::uint32_t await_epoch(std::uint32_t seen);

  int threads_;
  // Written by the caller before epoch_ is raised, read by workers after they saw it.
  Function function_ = nullptr;
  void* context_ = nullptr;
  int active_ = 0;
  bool is_stopping_ = false;
  alignas(64) std::atomic<std::uint32_t> epoch_{0};
  alignas(64) std::atomic<int> running_{0};  // workers other than the caller still inside body
  std::vector<std::jthread> workers_;
};

// Tells the core that this is a spin loop.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace splitwave::cpu
