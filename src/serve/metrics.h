// /metrics: Prometheus text under vLLM's metric names, so that dashboards made for it work. Owns
// the registry. Written on the engine thread and by HTTP threads, rendered by any thread; it
// decides nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/engine.h"
#include "serve/scheduler.h"

namespace splitwave::serve {

// What the engine loop last published.
struct LoopSnapshot {
  int running = 0;
  int waiting = 0;
  std::int64_t steps = 0;
  model::KvUsage kv;
};

class Metrics final : public SchedulerObserver {
 public:
  explicit Metrics(const std::string& model_name);
  ~Metrics() override;

  void on_first_token(double since_arrival_s, double queue_s, int prompt_tokens) override;
  void on_next_token(double since_last_s) override;
  void on_end(const GenerationEnd& end, double since_arrival_s) override;
  void on_step(const StepReport& report);
  void on_response(int http_status);

  // Gauges and cache counters come from the snapshot.
  [[nodiscard]] std::string render(const LoopSnapshot& snapshot);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace splitwave::serve
