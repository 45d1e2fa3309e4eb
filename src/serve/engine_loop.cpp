// The engine thread: inbox, step, publish, and sleep when there is nothing to do.
#include "serve/engine_loop.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace splitwave::serve {

EngineLoop::EngineLoop(std::unique_ptr<model::Engine> engine, const SchedulerOptions& options,
                       Metrics* metrics)
    : engine_(std::move(engine)),
      options_(options),
      metrics_(metrics),
      config_(engine_->config()),
      description_(engine_->description()),
      scheduler_(*engine_, options, metrics),
      thread_([this] { run(); }) {}

EngineLoop::~EngineLoop() { stop(); }

SubmitResult EngineLoop::submit(GenerationRequest request) {
  {
    const std::lock_guard lock(mutex_);
    if (is_draining_ || is_stopping_) return SubmitResult::draining;
    if (waiting_new_ + static_cast<int>(inbox_.size()) >= options_.waiting_max) {
      return SubmitResult::queue_full;
    }
    inbox_.push_back({std::move(request), Clock::now()});
    ++snapshot_.waiting;
  }
  wake_.notify_one();
  return SubmitResult::accepted;
}

bool EngineLoop::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_ || tasks_.size() >= k_tasks_max) return false;
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
  return true;
}

void EngineLoop::drain() {
  const std::lock_guard lock(mutex_);
  is_draining_ = true;
}

bool EngineLoop::wait_idle(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return idle_.wait_until(lock, deadline, [this] { return is_idle_ && inbox_.empty(); });
}

void EngineLoop::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

LoopSnapshot EngineLoop::snapshot() const {
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

int EngineLoop::retry_after_s() const {
  const std::lock_guard lock(mutex_);
  if (ended_per_s_ <= 0) return 1;
  const double ahead = 1 + static_cast<double>(snapshot_.waiting) / 2;  // half the queue has moved
  return std::clamp(static_cast<int>(std::ceil(ahead / ended_per_s_)), 1, 60);
}

double EngineLoop::stalled_s() const {
  const std::lock_guard lock(mutex_);
  if (is_idle_) return 0;
  return std::chrono::duration<double>(Clock::now() - last_turn_).count();
}

void EngineLoop::take_inbox() {
  std::vector<Task> tasks;
  {
    std::unique_lock lock(mutex_);
    if (!scheduler_.has_work()) {
      is_idle_ = inbox_.empty();
      if (is_idle_) idle_.notify_all();
      wake_.wait(lock, [this] { return is_stopping_ || !inbox_.empty() || !tasks_.empty(); });
      is_idle_ = inbox_.empty();
    }
    last_turn_ = Clock::now();
    for (Arrival& arrival : inbox_) {
      // Cannot be refused: submit() counted it under this lock.
      const bool taken = scheduler_.submit(std::move(arrival.request), arrival.time);
      static_cast<void>(taken);
    }
    inbox_.clear();
    waiting_new_ = scheduler_.waiting_new();
    tasks.swap(tasks_);
  }
  for (const Task& task : tasks) task(*engine_, samples_);
}

void EngineLoop::publish(const StepReport& report) {
  if (report.tokens() > 0) {
    ++steps_;
    samples_.push_back({steps_, report.decode_rows, report.prefill_tokens, report.step_s * 1e3});
    if (samples_.size() > k_step_samples_max) samples_.pop_front();
  }
  if (metrics_ != nullptr) metrics_->on_step(report);
  const model::KvUsage kv = engine_->kv_usage();
  const std::lock_guard lock(mutex_);
  const int before = snapshot_.running;
  snapshot_.running = scheduler_.running();
  snapshot_.waiting = scheduler_.waiting() + static_cast<int>(inbox_.size());
  snapshot_.steps = steps_;
  snapshot_.kv = kv;
  waiting_new_ = scheduler_.waiting_new();
  // Little's law on the batch: a smoothed count of ends per second, for Retry-After only.
  const int ended = std::max(0, before - snapshot_.running);
  const double rate = report.step_s > 0 ? ended / report.step_s : 0;
  ended_per_s_ += 0.02 * (rate - ended_per_s_);
}

void EngineLoop::run() {
  for (;;) {
    take_inbox();
    {
      const std::lock_guard lock(mutex_);
      if (is_stopping_) break;
    }
    if (scheduler_.has_work()) publish(scheduler_.step());
  }
  scheduler_.end_all(FinishReason::cancelled, "the server stopped");
  const std::lock_guard lock(mutex_);
  is_idle_ = true;
  snapshot_.running = snapshot_.waiting = 0;
  tasks_.clear();
  idle_.notify_all();
}

}  // namespace splitwave::serve
