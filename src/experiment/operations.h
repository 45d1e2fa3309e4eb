// The operations behind `splitwave ab`: load, record, seal, import, list. Owns what happens to
// files and in which order; prints nothing. Called by apps/splitwave/cmd_ab*.cpp and by tests.
#pragma once

#include <string>
#include <vector>

#include "experiment/manifest.h"
#include "experiment/preregistration.h"
#include "experiment/record.h"
#include "splitwave/status.h"

namespace splitwave::experiment {

struct LoadedPlan {
  std::string folder;
  std::string text;
  Manifest manifest;
  ResolvedPlan resolved;
  Preregistration registration;

  [[nodiscard]] PlanIdentity identity() const;
};

// folder/experiment.toml, parsed, looked up in HEAD's tree and resolved.
[[nodiscard]] Expected<LoadedPlan> load_plan(const std::string& folder);

// The record that a run of the plan will be appended to. A folder that holds a result already is
// refused unless adds_run, and then only if that result is of the very same sealed plan. Makes the
// folder where needed and checks that it can be written, before anything is measured.
[[nodiscard]] Expected<ResultRecord> begin_record(const LoadedPlan& plan, const std::string& out,
                                                  bool adds_run);

// Whether a run's end or gates make the command fail: no error, exit 1 (a gate failed, or
// requires_no_regression and some arm does not rule a regression out) or exit 3 (not complete).
[[nodiscard]] Status judge_run(const ResultRecord& record, bool requires_no_regression);

// experiments_folder/NNNN-slug with the template in it; returns its path.
[[nodiscard]] Expected<std::string> new_experiment(const std::string& experiments_folder,
                                                   const std::string& slug);

// What the stand-alone runner executes. Refuses a plan that is not pre-registered.
[[nodiscard]] Expected<std::string> seal_plan(const LoadedPlan& plan);

// The record of a run that the stand-alone runner made from a sealed form of this very plan: the
// output's hash, the seal's hash, the plan's hash and blob, and the workload (replayed again here)
// must all agree.
[[nodiscard]] Expected<RunRecord> import_run(const LoadedPlan& plan, const std::string& output_text,
                                             const std::string& name);

struct ListEntry {
  std::string slug;
  std::string question;
  std::string state;     // planned, partial, keep, adopt, adopt_ranges, unreadable
  std::string decision;  // one sentence, or the problem
  int runs = 0;
};
// Every subfolder with a plan, by name. Never fails: an unreadable one says so.
[[nodiscard]] std::vector<ListEntry> list_experiments(const std::string& experiments_folder);

}  // namespace splitwave::experiment
