// From a plan to what the runner executes: batches from the trace's replay, weights, stream widths.
#include <algorithm>

#include "experiment/manifest.h"

namespace splitwave::experiment {
namespace {

// Keeps the streams that the plan names (all when it names none), in the model's order.
Expected<std::vector<Stream>> chosen_streams(const RunSpec& run, int context_max) {
  const auto mix = model_mix(run.model, context_max);
  if (!mix.ok()) return mix.error();
  std::vector<Stream> out;
  std::string known;
  for (const Stream& s : mix->streams) {
    known += (known.empty() ? "" : ", ") + s.name;
    const bool is_named = std::any_of(run.streams.begin(), run.streams.end(),
                                      [&](const Stream& n) { return n.name == s.name; });
    if (run.streams.empty() || is_named) out.push_back(s);
  }
  if (!run.streams.empty() && out.size() != run.streams.size()) {
    return bad_input("workload.streams: model " + run.model + " has " + known +
                     "; each may be named once");
  }
  return out;
}

}  // namespace

Expected<ResolvedPlan> resolve(const Manifest& manifest, const std::string& folder) {
  ResolvedPlan plan;
  plan.run = manifest.run;
  int context_max = 1;
  if (!manifest.workload.is_explicit) {
    const auto trace = read_trace(folder + "/" + manifest.workload.trace);
    if (!trace.ok()) return bad_input("workload.trace: " + trace.error().message);
    plan.trace_name = trace->name;
    plan.trace_sha256 = trace->sha256;
    for (const TraceRequest& r : trace->requests) {
      context_max = std::max(context_max, r.context_tokens + r.generated_tokens);
    }
    std::vector<int> concurrencies;
    for (PointSpec& p : plan.run.points) {
      auto batches =
          replay_batches(*trace, p.concurrency, manifest.workload.batches, plan.run.seed);
      if (!batches.ok()) return bad_input("workload.trace: " + batches.error().message);
      p.batches = std::move(*batches);
      concurrencies.push_back(p.concurrency);
    }
    if (manifest.load_mix.from_trace) {
      const auto weights = load_mix_from_trace(*trace, concurrencies, manifest.load_mix.model);
      if (!weights.ok()) return bad_input("load_mix: " + weights.error().message);
      for (std::size_t i = 0; i < concurrencies.size(); ++i) {
        plan.run.points[i].weight = (*weights)[i];
      }
    }
  }
  for (const PointSpec& p : plan.run.points) {
    for (const Batch& b : p.batches) {
      for (const int c : b.contexts) context_max = std::max(context_max, c);
    }
  }
  auto streams = chosen_streams(plan.run, context_max);
  if (!streams.ok()) return streams.error();
  plan.run.streams = std::move(*streams);
  return plan;
}

}  // namespace splitwave::experiment
