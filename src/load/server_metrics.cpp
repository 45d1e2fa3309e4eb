// One pass over the lines; what it does not know it skips.
#include "load/server_metrics.h"

#include <charconv>

namespace splitwave::load {
namespace {

// Adds the value of a sample line `NAME{labels} VALUE [time]` of that name.
void add_sample(std::string_view line, std::string_view name, std::optional<double>* sum) {
  if (!line.starts_with(name)) return;
  line.remove_prefix(name.size());
  if (line.starts_with('{')) {
    const std::size_t close = line.rfind('}');
    if (close == std::string_view::npos) return;
    line.remove_prefix(close + 1);
  }
  if (!line.starts_with(' ')) return;
  line.remove_prefix(line.find_first_not_of(' '));
  double value = 0;
  if (std::from_chars(line.data(), line.data() + line.size(), value).ec != std::errc()) return;
  *sum = sum->value_or(0) + value;
}

}  // namespace

std::optional<StepCounters> read_step_counters(std::string_view metrics) {
  std::optional<double> steps, seconds, iterations;
  while (!metrics.empty()) {
    const std::size_t end = metrics.find('\n');
    const std::string_view line = metrics.substr(0, end);
    add_sample(line, "splitwave:steps", &steps);
    add_sample(line, "splitwave:step_seconds_total", &seconds);
    add_sample(line, "vllm:iteration_tokens_total_count", &iterations);
    metrics.remove_prefix(end == std::string_view::npos ? metrics.size() : end + 1);
  }
  if (steps) return StepCounters{*steps, seconds};
  if (iterations) return StepCounters{*iterations, std::nullopt};
  return std::nullopt;
}

}  // namespace splitwave::load
