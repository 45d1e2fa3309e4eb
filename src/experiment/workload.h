// Decode batches from a serving trace. Owns the replay: a simple continuous-batching model that
// says which contexts share a decode step at each concurrency, and how much time a deployment
// spends at each. Pure functions of the trace and a seed. Called when a plan is resolved; the
// runner gets their result, never the trace.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experiment/run_spec.h"
#include "experiment/trace.h"
#include "splitwave/status.h"

namespace splitwave::experiment {

inline constexpr int k_concurrency_max = 1024;
inline constexpr std::int64_t k_replay_tokens_max = 200'000'000;

// Closed loop: `slots` slots take requests in trace order; each step decodes one token per slot; a
// slot whose request has all its tokens takes the next one. Prefill takes no step. The steps from
// the moment the first `slots` requests have finished to the trace's end are cut into `count` equal
// parts, and one step of each, drawn by the seed, gives a batch. Refuses a trace that is too short
// to keep `slots` slots busy for `count` steps.
[[nodiscard]] Expected<std::vector<Batch>> replay_batches(const Trace& trace, int slots, int count,
                                                          std::uint64_t seed);

// How long a step takes when the trace is served in open loop, for load_mix_from_trace.
struct LoadModel {
  double rate_scale = 1;  // arrivals are this many times as fast as in the trace
  double fixed_ms = 0;    // step time = fixed + marginal * batch
  double marginal_ms = 0;
};

// Open loop: requests arrive as in the trace, wait for one of points.back() slots, and decode one
// token a step. Returns the share of busy time at each point (they sum to 1); the time at a
// concurrency between two points is divided between them in proportion to nearness. points ascend.
[[nodiscard]] Expected<std::vector<double>> load_mix_from_trace(const Trace& trace,
                                                                std::span<const int> points,
                                                                const LoadModel& model);

}  // namespace splitwave::experiment
