// The step counters of a server's /metrics, as far as the load generator needs them: how many
// engine steps there were and how long they took. Owns StepCounters and the parser of the
// Prometheus text format's sample lines; called by the load generator between requests.
#pragma once

#include <optional>
#include <string_view>

namespace splitwave::load {

struct StepCounters {
  double steps = 0;
  std::optional<double> step_seconds;  // only our own server says
};

// splitwave:steps and splitwave:step_seconds_total, else the count of vLLM's
// vllm:iteration_tokens_total histogram; sums over label sets. nullopt when there is neither.
[[nodiscard]] std::optional<StepCounters> read_step_counters(std::string_view metrics);

}  // namespace splitwave::load
