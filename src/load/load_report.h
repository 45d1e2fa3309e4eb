// What `load` prints: one JSON document that `fit` and `ab` read, or a table. Owns the fields'
// names; called by the command line.
#pragma once

#include <span>
#include <string>

#include "load/load_run.h"

namespace splitwave::load {

struct LoadReport {
  const LoadOptions* options = nullptr;
  std::span<const LoadPoint> points;
  std::span<const std::string> scaling_violations;
  std::string trace;  // its name, of an open loop
};

// points[]: concurrency, tok_s, ttft_ms, tpot_ms, itl_ms, e2e_ms (each p50, p90, p99; null when
// nothing was measured), step_hz (null when unknown), errors, samples[]{session, step_ms}.
[[nodiscard]] std::string load_json(const LoadReport& report);
[[nodiscard]] std::string load_table(const LoadReport& report);

}  // namespace splitwave::load
