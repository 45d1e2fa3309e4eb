// experiment.toml, the plan of an experiment: what is asked, why, how it will be measured and what
// would prove it wrong. Owns Manifest, its reader and its resolution into a RunSpec. Every refusal
// names file, line, field, value and what would work; unknown fields are refused with the nearest
// known name. docs/experiments.md documents the fields. Called by `ab`; fuzzed by tests/fuzz.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiment/run_spec.h"
#include "experiment/workload.h"
#include "splitwave/status.h"

namespace splitwave::experiment {

inline constexpr std::int64_t k_manifest_bytes_max = 1 << 20;
inline constexpr int k_manifest_version = 1;

// "the load mix" as a place to project or falsify at, beside the points.
inline constexpr int k_at_mix = 0;

struct Projection {
  int arm = 0;
  int at = k_at_mix;       // a point's concurrency, or k_at_mix
  double low_percent = 0;  // change of throughput against the incumbent
  double central_percent = 0;
  double high_percent = 0;
  std::string derivation;
};

struct Falsification {
  std::string text;
  int arm = 0;
  int at = k_at_mix;
  // Refuted when the whole interval lies below the bound, or, with is_above, above it.
  double bound_percent = 0;
  bool is_above = false;
};

struct WorkloadChoice {
  std::string trace;         // path relative to the plan's folder; empty with explicit batches
  int batches = 0;           // of each point
  bool is_explicit = false;  // the points carry their batches already
};

struct LoadMixChoice {
  bool from_trace = false;
  LoadModel model;
};

struct Manifest {
  std::string question;
  std::string why;
  std::string rival;  // what else would explain the effect, and how the plan tells them apart
  std::string rollback;
  std::string metric;                  // step_us
  std::string direction;               // lower
  std::vector<std::string> arm_notes;  // one a arm
  WorkloadChoice workload;
  LoadMixChoice load_mix;
  std::vector<Projection> projections;
  Falsification falsified_by;
  RunSpec run;  // complete but for batches, weights and the widths that follow from the trace
};

// slug names the experiment (its folder's name) and becomes run.slug; file names the text in
// errors.
[[nodiscard]] Expected<Manifest> parse_manifest(std::string_view text, const std::string& file,
                                                const std::string& slug);

struct ResolvedPlan {
  RunSpec run;
  std::string trace_name;  // empty with explicit batches
  std::string trace_sha256;
};

// Replays the trace (read relative to folder) and fills in what follows from it.
[[nodiscard]] Expected<ResolvedPlan> resolve(const Manifest& manifest, const std::string& folder);

// What `ab new` writes: a plan that parses, with every field explained.
[[nodiscard]] std::string manifest_template();

}  // namespace splitwave::experiment
