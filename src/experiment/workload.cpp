// The closed-loop replay runs twice: once to count the steps, once to take the batches at the drawn
// steps. The open-loop replay accumulates busy time by concurrency.
#include "experiment/workload.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/random.h"

namespace splitwave::experiment {
namespace {

struct Slot {
  int context = 0;
  int tokens_left = 0;
};

Status check_replay_size(const Trace& trace) {
  std::int64_t tokens = 0;
  for (const TraceRequest& r : trace.requests) tokens += r.generated_tokens;
  if (tokens <= k_replay_tokens_max) return {};
  return bad_input(trace.name + ": generates " + std::to_string(tokens) +
                   " tokens; a replay takes " + "at most " + std::to_string(k_replay_tokens_max) +
                   ": use a prefix of the trace");
}

// Calls on_step(step, slots, finished) before each decode step, until a slot would stay empty.
// finished: the requests that have all their tokens.
template <class OnStep>
void replay(const Trace& trace, int slot_count, const OnStep& on_step) {
  std::vector<Slot> slots(static_cast<std::size_t>(slot_count));
  std::size_t next = 0;
  std::int64_t finished = 0;
  for (std::int64_t step = 0;; ++step) {
    for (Slot& slot : slots) {
      if (slot.tokens_left > 0) continue;
      if (next == trace.requests.size()) return;
      const TraceRequest& request = trace.requests[next++];
      slot = {request.context_tokens, request.generated_tokens};
    }
    for (Slot& slot : slots) ++slot.context;  // the token of this step is in its own context
    on_step(step, slots, finished);
    for (Slot& slot : slots) finished += --slot.tokens_left == 0 ? 1 : 0;
  }
}

}  // namespace

Expected<std::vector<Batch>> replay_batches(const Trace& trace, int slots, int count,
                                            std::uint64_t seed) {
  SPLITWAVE_CHECK(slots > 0 && slots <= k_concurrency_max && count > 0, "checked by the manifest");
  if (Status status = check_replay_size(trace); !status.ok()) return status.error();
  std::int64_t first = -1;  // the first step after the warm-up
  std::int64_t end = 0;
  replay(trace, slots, [&](std::int64_t step, const std::vector<Slot>&, std::int64_t finished) {
    if (first < 0 && finished >= slots) first = step;
    end = step + 1;
  });
  if (first < 0 || end - first < count) {
    return bad_input(
        trace.name + ": " + std::to_string(trace.requests.size()) + " requests keep " +
        std::to_string(slots) + " slots busy for " + std::to_string(first < 0 ? 0 : end - first) +
        " steps after the warm-up, and " + std::to_string(count) +
        " batches are wanted: use a longer trace, fewer " + "batches or a lower concurrency");
  }
  std::vector<std::int64_t> wanted;
  Rng rng(seed, static_cast<std::uint64_t>(slots));
  for (int i = 0; i < count; ++i) {
    const std::int64_t from = first + (end - first) * i / count;
    const std::int64_t to = first + (end - first) * (i + 1) / count;
    wanted.push_back(from + rng.below(static_cast<std::uint32_t>(to - from)));
  }
  std::vector<Batch> batches;
  replay(trace, slots, [&](std::int64_t step, const std::vector<Slot>& at, std::int64_t) {
    if (batches.size() == wanted.size() || step != wanted[batches.size()]) return;
    Batch batch;
    for (const Slot& slot : at) batch.contexts.push_back(slot.context);
    batches.push_back(std::move(batch));
  });
  return batches;
}

Expected<std::vector<double>> load_mix_from_trace(const Trace& trace, std::span<const int> points,
                                                  const LoadModel& model) {
  SPLITWAVE_CHECK(!points.empty() && std::is_sorted(points.begin(), points.end()), "points ascend");
  if (Status status = check_replay_size(trace); !status.ok()) return status.error();
  const auto slots_max = static_cast<std::size_t>(points.back());
  std::vector<double> busy_ms(slots_max + 1, 0.0);
  std::vector<int> left;  // tokens left of each active request
  std::size_t next = 0;
  double now_ms = 0;
  const auto arrival_ms = [&](std::size_t i) {
    return trace.requests[i].arrival_s * 1e3 / model.rate_scale;
  };
  while (next < trace.requests.size() || !left.empty()) {
    if (left.empty()) now_ms = std::max(now_ms, arrival_ms(next));
    while (next < trace.requests.size() && left.size() < slots_max && arrival_ms(next) <= now_ms) {
      left.push_back(trace.requests[next++].generated_tokens);
    }
    const double step_ms = model.fixed_ms + model.marginal_ms * static_cast<double>(left.size());
    busy_ms[left.size()] += step_ms;
    now_ms += step_ms;
    for (int& tokens : left) --tokens;
    std::erase(left, 0);
  }
  std::vector<double> weights(points.size(), 0.0);
  double total_ms = 0;
  for (std::size_t c = 1; c <= slots_max; ++c) {
    total_ms += busy_ms[c];
    const int concurrency = static_cast<int>(c);
    const auto upper = std::lower_bound(points.begin(), points.end(), concurrency);
    const auto above = static_cast<std::size_t>(upper - points.begin());
    if (above == 0 || *upper == concurrency) {
      weights[above] += busy_ms[c];
      continue;
    }
    const double share =
        static_cast<double>(concurrency - points[above - 1]) / (points[above] - points[above - 1]);
    weights[above] += share * busy_ms[c];
    weights[above - 1] += (1 - share) * busy_ms[c];
  }
  for (double& w : weights) w /= total_ms;
  return weights;
}

}  // namespace splitwave::experiment
