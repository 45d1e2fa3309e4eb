// Load on an OpenAI-compatible server. Owns the closed loop (a fixed number of requests in flight)
// and the open loop (arrivals as a trace gives them), their declared windows, and what is measured
// in them. Called by `splitwave load` and by experiments; prints nothing.
//
// A point begins with warmup_s in which nothing counts, then window_s. Throughput is the tokens of
// the usage that the server reported, each request's spread over the arrival times of its events;
// latencies are those of requests that ended in the window.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "load/stream_record.h"
#include "splitwave/status.h"

namespace splitwave::load {

inline constexpr int k_concurrency_in_flight_max = 1024;

struct LoadTarget {
  std::string url;    // up to and without /v1
  std::string model;  // as /v1/models names it; empty: the first that it lists
  std::string api_key;
};

// The target with its model: what /v1/models lists first, when none is named. environment: nothing
// answers there.
[[nodiscard]] Expected<LoadTarget> resolve_target(const LoadTarget& target);

struct LoadOptions {
  LoadTarget target;
  int prompt_tokens = 256;  // words of the prompt: about as many tokens
  int output_tokens = 64;
  bool ignore_eos = true;  // an extension that vLLM, SGLang and our server know
  double warmup_s = 2;
  double window_s = 10;
  double request_timeout_s = 600;
  int sessions = 1;  // repetitions of a closed-loop point; `fit` groups its samples by them
  std::uint64_t seed = 1;
};

// One request of a trace. Prompts that begin with the same blocks share that prefix.
struct Arrival {
  double at_s = 0;
  int prompt_tokens = 0;
  int output_tokens = 0;
  std::vector<std::int64_t> prefix_blocks;  // of k_trace_block_tokens each; may be empty
};
inline constexpr int k_trace_block_tokens = 512;  // Mooncake's

struct StepTime {
  int session = 0;
  double step_ms = 0;
};

struct LoadPoint {
  int concurrency = 0;  // closed loop: as asked; open loop: the most in flight
  double tok_s = 0;     // output
  double prompt_tok_s = 0;
  double mean_in_flight = 0;
  int requests = 0;                         // that ended in the window, without errors
  int errors = 0;                           // of the whole point, warm-up and drain included
  std::vector<std::string> error_examples;  // distinct, a few
  std::int64_t cached_prompt_tokens = 0;
  std::vector<double> ttft_ms, tpot_ms, itl_ms, e2e_ms;
  std::optional<double> step_hz;
  std::string step_source;  // "server": its counters; "tpot": each request's mean; empty: none
  std::vector<StepTime> samples;
};

// environment: the server cannot be reached. A server that answers with errors gives a point.
[[nodiscard]] Expected<LoadPoint> run_closed_loop(const LoadOptions& options, int concurrency);
// Requests beyond k_concurrency_in_flight_max wait and count as late, not lost.
[[nodiscard]] Expected<LoadPoint> run_open_loop(const LoadOptions& options,
                                                std::span<const Arrival> arrivals);

// Whether throughput grows with concurrency: each step down by more than tolerance, as text.
[[nodiscard]] std::vector<std::string> scaling_violations(std::span<const LoadPoint> points,
                                                          double tolerance);

}  // namespace splitwave::load
