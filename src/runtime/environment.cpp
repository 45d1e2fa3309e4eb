// Parsing and refusals of the SPLITWAVE_ variables.
#include "runtime/environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/nearest_name.h"
#include "kernels/cpu/worker_pool.h"

namespace splitwave {
namespace {

constexpr std::string_view k_prefix = "SPLITWAVE_";
constexpr std::array<std::string_view, 5> k_names = {"SPLITWAVE_BACKEND", "SPLITWAVE_PLAN",
                                                     "SPLITWAVE_THREADS", "SPLITWAVE_TRACE",
                                                     "SPLITWAVE_STATE_DIR"};
constexpr std::array<std::string_view, 3> k_backends = {"auto", "cpu", "cuda"};

Error refused_word(std::string_view name, std::string_view value,
                   std::span<const std::string_view> words) {
  return bad_input(std::string(name) + "='" + std::string(value) + "' is unknown" +
                   did_you_mean(value, words) + "; what works: " + join_names(words));
}

Status set_backend(Environment& environment, std::string_view value) {
  if (value == "auto") {
    environment.backend = Backend::auto_detect;
  } else if (value == "cpu") {
    environment.backend = Backend::cpu;
  } else if (value == "cuda") {
    environment.backend = Backend::cuda;
  } else {
    return refused_word("SPLITWAVE_BACKEND", value, k_backends);
  }
  return {};
}

Status set_threads(Environment& environment, std::string_view value) {
  constexpr int k_most = cpu::WorkerPool::k_threads_max;
  int threads = 0;
  const char* const end = value.data() + value.size();
  const auto [stop, code] = std::from_chars(value.data(), end, threads);
  if (code != std::errc() || stop != end || threads < 1 || threads > k_most) {
    return bad_input("SPLITWAVE_THREADS='" + std::string(value) + "' is not an integer of 1.." +
                     std::to_string(k_most) + " (CPU workers); unset it to use every core");
  }
  environment.threads = threads;
  return {};
}

Status set_trace(Environment& environment, std::string_view value) {
  constexpr std::array<std::string_view, 1> k_traces = {"plan"};
  if (value != "plan") return refused_word("SPLITWAVE_TRACE", value, k_traces);
  environment.trace_plan = true;
  return {};
}

Status set_plan(Environment& environment, std::string_view value) {
  Expected<PlanOverrides> plan = parse_plan_overrides(std::string(value));
  if (!plan) return Error{plan.error().kind, "SPLITWAVE_PLAN: " + plan.error().message};
  environment.plan = *plan;
  return {};
}

Status set_variable(Environment& environment, std::string_view name, std::string_view value) {
  if (name == "SPLITWAVE_BACKEND") return set_backend(environment, value);
  if (name == "SPLITWAVE_PLAN") return set_plan(environment, value);
  if (name == "SPLITWAVE_THREADS") return set_threads(environment, value);
  if (name == "SPLITWAVE_TRACE") return set_trace(environment, value);
  if (name == "SPLITWAVE_STATE_DIR") {
    environment.state_dir = value;
    return {};
  }
  return bad_input("environment variable " + std::string(name) + " is unknown" +
                   did_you_mean(name, k_names) + "; the five are " + join_names(k_names));
}

template <class T>
void take(std::optional<T>& to, const std::optional<T>& from) {
  if (from.has_value()) to = from;
}

}  // namespace

Expected<Environment> parse_environment(const std::vector<std::string>& entries) {
  Environment environment;
  for (const std::string& entry : entries) {
    const std::string_view text = entry;
    if (text.substr(0, k_prefix.size()) != k_prefix) continue;
    const std::size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : text.substr(equals + 1);
    const bool is_known = std::find(k_names.begin(), k_names.end(), name) != k_names.end();
    if (is_known && value.empty()) continue;
    const Status status = set_variable(environment, name, value);
    if (!status) return status.error();
  }
  return environment;
}

Expected<Environment> read_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    entries.emplace_back(*entry);
  }
  return parse_environment(entries);
}

PlanOverrides merged(const PlanOverrides& base, const PlanOverrides& over) {
  PlanOverrides result = base;
  take(result.mode, over.mode);
  take(result.numerics, over.numerics);
  take(result.target_ctas, over.target_ctas);
  take(result.block_heads, over.block_heads);
  take(result.tile_rows, over.tile_rows);
  take(result.warps, over.warps);
  take(result.stages, over.stages);
  take(result.ctas_per_sm, over.ctas_per_sm);
  take(result.chunk_rows, over.chunk_rows);
  take(result.prefetch, over.prefetch);
  take(result.overlap, over.overlap);
  take(result.variant, over.variant);
  return result;
}

}  // namespace splitwave
