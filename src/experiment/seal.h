// The sealed plan: one flat text file that holds everything a run needs, for a machine without git,
// TOML or this repository's traces. Owns the format; standard library only. Written by `ab seal`,
// executed by the runner, checked again by `ab import`.
//
// One record a line, "keyword fields...", fields separated by one space; the last line is the
// SHA-256 of every byte before it. Texts with spaces stand last on their line.
//
//   splitwave-sealed 1                     plan_sha256 HEX   commit HEX   blob HEX
//   run KEY VALUE                          stream NAME LAYERS MAIN_WIDTH RATIO EXTRA_WIDTH
//   arm NAME PLANTED PERCENT [PLAN]        point CONCURRENCY WEIGHT BATCHES
//   batch CONTEXT CONTEXT ...              sha256 HEX
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "experiment/run_spec.h"
#include "splitwave/status.h"

namespace splitwave::experiment {

inline constexpr std::int64_t k_sealed_bytes_max = 64 << 20;
inline constexpr int k_sealed_version = 1;

// Which plan this is: what pre-registration found in HEAD's tree.
struct PlanIdentity {
  std::string plan_sha256;  // of experiment.toml's bytes
  std::string commit;       // 40 hex digits; "none": not pre-registered
  std::string blob;         // git's name of the file; "none"
  std::string trace = "none";
  std::string trace_sha256 = "none";
  bool operator==(const PlanIdentity&) const = default;
};

struct SealedPlan {
  PlanIdentity identity;
  RunSpec run;
  std::string sha256;  // of the sealed text without its last line; set by unseal
};

[[nodiscard]] std::string seal(const PlanIdentity& identity, const RunSpec& run);

// Refuses a text whose hash does not match, and every malformed line by its number.
[[nodiscard]] Expected<SealedPlan> unseal(std::string_view text);

}  // namespace splitwave::experiment
