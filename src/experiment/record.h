// result.json: the record of an experiment. Owns ResultRecord, its JSON form (version 1; the schema
// is docs/experiments.md), validation on read and the derived part: verdicts come from the raw
// samples alone, at every read. Called by `ab` and by the report.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiment/decision.h"
#include "experiment/manifest.h"
#include "experiment/preregistration.h"
#include "experiment/run_record.h"
#include "experiment/seal.h"
#include "experiment/verdict.h"
#include "splitwave/status.h"

namespace splitwave::experiment {

inline constexpr int k_result_version = 1;
inline constexpr std::int64_t k_result_bytes_max = std::int64_t{256} << 20;
inline constexpr const char* k_plan_file = "experiment.toml";
inline constexpr const char* k_result_file = "result.json";
inline constexpr const char* k_report_file = "REPORT.md";

struct ResultRecord {
  std::string plan_text;  // experiment.toml as it was run
  Manifest manifest;      // parsed from it
  PlanState plan_state = PlanState::no_repository;
  std::string plan_path;
  SealedPlan sealed;            // identity and everything that was run
  std::vector<RunRecord> runs;  // append-only; the last is the one that counts
};

// What is derived from one run.
struct Derived {
  Verdict verdict;
  Decision decision;
};
[[nodiscard]] Derived derive(const ResultRecord& record, const RunRecord& run);

// The whole file: raw, then what is derived from it.
[[nodiscard]] std::string to_json(const ResultRecord& record);

// Refuses what the schema does not allow, by JSON path; refuses a damaged seal or plan, and a
// stored verdict that its raw samples do not give (gate).
[[nodiscard]] Expected<ResultRecord> parse_result(std::string_view text, const std::string& name);

// folder/result.json.
[[nodiscard]] Expected<ResultRecord> read_result(const std::string& folder);
[[nodiscard]] bool has_result(const std::string& folder);

// The machine-readable answer of `ab run` and `ab report`: verdict, points[], gates[].
[[nodiscard]] std::string summary_json(const ResultRecord& record, const std::string& folder);

// What `ab import` takes from a bare machine: the runner's output, one JSON document with the
// sealed text and its run. `sealed_text` receives the former.
[[nodiscard]] Expected<RunRecord> parse_runner_output(std::string_view text,
                                                      const std::string& name,
                                                      std::string& sealed_text);

}  // namespace splitwave::experiment
