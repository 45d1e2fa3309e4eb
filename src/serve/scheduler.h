// Continuous batching: which sequences a step runs and with how many tokens. Owns the waiting and
// the running sequences of one engine. Single-threaded and without a clock of its own decisions:
// the engine loop calls it; tests drive it step by step. It never changes what a request draws:
// order, chunks and preemption move work in time only.
//
// A step holds one token of every sequence that decodes, and prompt chunks of the others, oldest
// first, up to tokens_per_step. The sum of sequences_max and prefill_tokens_min is at most
// tokens_per_step, so that neither side starves: a decoding sequence gets a token in every step,
// and prompts together get at least prefill_tokens_min. When the KV pool is full the youngest
// sequence gives its pages back and is computed again later; the oldest always advances.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "model/engine.h"
#include "serve/generation.h"
#include "serve/sampler.h"

namespace splitwave::serve {

struct SchedulerOptions {
  int sequences_max = 96;
  int tokens_per_step = 512;    // the budget: decode rows and prompt chunks together
  int prefill_tokens_min = 64;  // of it, kept for prompts
  int waiting_max = 512;        // more are refused
};

// What each step did; for metrics, /profile and tests.
struct StepReport {
  int decode_rows = 0;
  int prefill_rows = 0;
  int prefill_tokens = 0;
  int generated_tokens = 0;
  int preemptions = 0;
  double step_s = 0;  // the engine's part
  [[nodiscard]] int tokens() const { return decode_rows + prefill_tokens; }
};

// Times of one request, reported as they become known. Called on the engine thread.
class SchedulerObserver {
 public:
  virtual ~SchedulerObserver() = default;
  virtual void on_first_token(double since_arrival_s, double queue_s, int prompt_tokens) = 0;
  virtual void on_next_token(double since_last_s) = 0;
  virtual void on_end(const GenerationEnd& end, double since_arrival_s) = 0;
};

class Scheduler {
 public:
  // engine and observer outlive the scheduler. observer may be null.
  Scheduler(model::Engine& engine, const SchedulerOptions& options, SchedulerObserver* observer);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // False: waiting_max are waiting already; the request was not taken.
  [[nodiscard]] bool submit(GenerationRequest request, Clock::time_point arrival);
  [[nodiscard]] bool has_work() const { return !waiting_.empty() || !running_.empty(); }
  [[nodiscard]] int running() const { return static_cast<int>(running_.size()); }
  [[nodiscard]] int waiting() const { return static_cast<int>(waiting_.size()); }
  [[nodiscard]] int waiting_new() const { return waiting() - preempted_waiting_; }

  // Drops what was cancelled or is late, admits, runs one engine step and delivers its tokens.
  StepReport step();
  // Ends everything: the server stops.
  void end_all(FinishReason reason, const std::string& message);

 private:
  struct Sequence;
  using SequencePtr = std::unique_ptr<Sequence>;

  void drop_ended(Clock::time_point now);
  void admit(Clock::time_point now);
  [[nodiscard]] bool admit_front(Clock::time_point now);
  void plan_decodes(StepReport& report);
  void plan_prefills(StepReport& report);
  void preempt_youngest(StepReport& report);
  void run_rows(StepReport& report);
  void run_rows_alone();
  void deliver(Sequence& sequence, std::span<const float> logits, StepReport& report);
  void finish(SequencePtr sequence, FinishReason reason, const std::string& message);
  void remove_finished();

  model::Engine& engine_;
  SchedulerOptions options_;
  SchedulerObserver* observer_;
  Sampler sampler_;
  std::deque<SequencePtr> waiting_;   // by ticket: the oldest first
  std::vector<SequencePtr> running_;  // by ticket
  std::int64_t next_ticket_ = 0;
  int preempted_waiting_ = 0;
  bool pool_is_full_ = false;  // since the last sequence ended; admission waits
  std::vector<model::StepRow> rows_;
  std::vector<Sequence*> row_sequences_;
  std::vector<float> logits_;
};

}  // namespace splitwave::serve
