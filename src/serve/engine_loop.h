// The one thread that touches the engine. Owns the engine, its scheduler, the inbox between HTTP
// threads and the scheduler, and the recent step times. Called from any thread; everything it calls
// back (sinks, tasks) runs on the engine thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "model/engine.h"
#include "serve/metrics.h"
#include "serve/scheduler.h"

namespace splitwave::serve {

inline constexpr std::size_t k_step_samples_max = 4096;  // the most recent ones are kept
inline constexpr std::size_t k_tasks_max = 64;

enum class SubmitResult : std::uint8_t { accepted, queue_full, draining };

struct StepSample {
  std::int64_t step = 0;
  int decode_rows = 0;
  int prefill_tokens = 0;
  double step_ms = 0;
};

class EngineLoop {
 public:
  // metrics may be null and outlives the loop.
  EngineLoop(std::unique_ptr<model::Engine> engine, const SchedulerOptions& options,
             Metrics* metrics);
  ~EngineLoop();  // as stop()
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  [[nodiscard]] SubmitResult submit(GenerationRequest request);
  // Runs between two steps, also when nothing else is to do. False: k_tasks_max are waiting, or the
  // loop has stopped.
  using Task = std::function<void(model::Engine&, const std::deque<StepSample>&)>;
  [[nodiscard]] bool post(Task task);

  // From now on submit() says draining.
  void drain();
  // True when nothing is left to do before the deadline.
  [[nodiscard]] bool wait_idle(Clock::time_point deadline);
  // Ends what still runs as cancelled, and the thread.
  void stop();

  [[nodiscard]] LoopSnapshot snapshot() const;
  // Seconds after which a refused client may find a place: from the queue's recent speed, 1..60.
  [[nodiscard]] int retry_after_s() const;
  // Seconds since the engine thread last came around while it had work; 0 when idle.
  [[nodiscard]] double stalled_s() const;
  // Facts that never change.
  [[nodiscard]] const model::ModelConfig& config() const { return config_; }
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& description() const {
    return description_;
  }

 private:
  void run();
  void take_inbox();
  void publish(const StepReport& report);

  std::unique_ptr<model::Engine> engine_;
  const SchedulerOptions options_;
  Metrics* const metrics_;
  const model::ModelConfig config_;
  const std::vector<std::pair<std::string, std::string>> description_;
  Scheduler scheduler_;             // engine thread
  std::deque<StepSample> samples_;  // engine thread
  std::int64_t steps_ = 0;          // engine thread

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  struct Arrival {
    GenerationRequest request;
    Clock::time_point time;
  };
  std::vector<Arrival> inbox_;
  std::vector<Task> tasks_;
  LoopSnapshot snapshot_;
  int waiting_new_ = 0;  // in the scheduler, as of the last step
  bool is_idle_ = true;
  bool is_draining_ = false;
  bool is_stopping_ = false;
  double ended_per_s_ = 0;  // smoothed
  Clock::time_point last_turn_ = Clock::now();
  std::thread thread_;  // last: it starts when everything else is there
};

}  // namespace splitwave::serve
