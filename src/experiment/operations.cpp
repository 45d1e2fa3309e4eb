// Files of an experiment's folder; every check that can fail comes before the measurement.
#include "experiment/operations.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/sha256.h"
#include "experiment/runner_output.h"

namespace splitwave::experiment {
namespace {

namespace fs = std::filesystem;

std::string slug_of(const std::string& folder) {
  std::error_code error;
  const fs::path path = fs::canonical(folder, error);
  return error ? fs::path(folder).filename().string() : path.filename().string();
}

bool is_slug(const std::string& text) {
  constexpr std::size_t k_slug_max = 60;
  return !text.empty() && text.size() <= k_slug_max && text.front() != '-' &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
}

// Writes and removes a small file: a read-only folder or a full disk shows before the run.
Status check_writable(const std::string& folder) {
  const std::string probe = folder + "/.splitwave-probe";
  const std::string block(4096, 'x');
  if (Status s = write_file(probe, block); !s.ok()) return s;
  ::unlink(probe.c_str());
  return {};
}

ListEntry list_one(const fs::path& folder) {
  ListEntry entry;
  entry.slug = folder.filename().string();
  const auto text = read_file(folder / k_plan_file, k_manifest_bytes_max);
  const auto manifest = text.ok() ? parse_manifest(*text, folder / k_plan_file, entry.slug)
                                  : Expected<Manifest>(text.error());
  if (!manifest.ok()) {
    entry.state = "unreadable";
    entry.decision = manifest.error().message;
    return entry;
  }
  entry.question = manifest->question;
  if (!has_result(folder)) {
    entry.state = "planned";
    return entry;
  }
  // The stored verdict: `ab report` checks it against the raw samples, a list need not.
  const auto result = read_file(folder / k_result_file, k_result_bytes_max);
  const auto json = result.ok() ? nlohmann::json::parse(*result, nullptr, false) : nlohmann::json();
  const auto pointer = [&](const nlohmann::json& at, const char* path) -> std::string {
    const nlohmann::json::json_pointer p(path);
    return at.contains(p) && at.at(p).is_string() ? at.at(p).get<std::string>() : std::string();
  };
  if (!json.is_object() || !json.contains("runs") || !json["runs"].is_array() ||
      json["runs"].empty()) {
    entry.state = "unreadable";
    entry.decision = (folder / k_result_file).string() + ": no run in it";
    return entry;
  }
  const nlohmann::json& last = json["runs"].back();
  entry.runs = static_cast<int>(json["runs"].size());
  const nlohmann::json::json_pointer complete("/raw/complete");
  const bool is_complete =
      last.contains(complete) && last.at(complete).is_boolean() && last.at(complete).get<bool>();
  entry.state = is_complete ? pointer(last, "/derived/decision/kind") : "partial";
  entry.decision = pointer(last, "/derived/decision/reason");
  return entry;
}

}  // namespace

PlanIdentity LoadedPlan::identity() const {
  PlanIdentity id;
  id.plan_sha256 = registration.plan_sha256;
  id.commit = registration.commit;
  id.blob = registration.blob;
  if (!resolved.trace_name.empty()) {
    id.trace = resolved.trace_name;
    id.trace_sha256 = resolved.trace_sha256;
  }
  return id;
}

Expected<LoadedPlan> load_plan(const std::string& folder) {
  LoadedPlan plan;
  plan.folder = folder;
  const std::string path = folder + "/" + k_plan_file;
  auto text = read_file(path, k_manifest_bytes_max);
  if (!text.ok()) return text.error();
  plan.text = std::move(*text);
  auto manifest = parse_manifest(plan.text, path, slug_of(folder));
  if (!manifest.ok()) return manifest.error();
  plan.manifest = std::move(*manifest);
  auto registration = look_up_plan(path, plan.text);
  if (!registration.ok()) return registration.error();
  plan.registration = std::move(*registration);
  auto resolved = resolve(plan.manifest, folder);
  if (!resolved.ok()) return bad_input(path + ": " + resolved.error().message);
  plan.resolved = std::move(*resolved);
  return plan;
}

Expected<ResultRecord> begin_record(const LoadedPlan& plan, const std::string& out, bool adds_run) {
  std::error_code error;
  fs::create_directories(fs::path(out).parent_path(), error);  // make_folder says what failed
  if (Status s = make_folder(out); !s.ok()) return s.error();
  ResultRecord record;
  record.plan_text = plan.text;
  record.manifest = plan.manifest;
  record.plan_state = plan.registration.state;
  record.plan_path = plan.registration.path;
  record.sealed.identity = plan.identity();
  record.sealed.run = plan.resolved.run;
  if (has_result(out)) {
    if (!adds_run) {
      return bad_input(out + "/" + k_result_file +
                       " exists: records are append-only; --add-run appends a run to it, --out DIR "
                       "writes elsewhere, `ab new` plans the next experiment");
    }
    auto existing = read_result(out);
    if (!existing.ok()) return existing.error();
    if (existing->plan_text != plan.text || existing->sealed.run != plan.resolved.run) {
      return bad_input(
          out + "/" + k_result_file +
          ": is the record of another plan or trace: a changed plan is a new experiment "
          "(`ab new`)");
    }
    record.sealed.identity = existing->sealed.identity;
    record.plan_state = existing->plan_state;
    record.runs = std::move(existing->runs);
  }
  if (Status s = check_writable(out); !s.ok()) return s.error();
  return record;
}

Status judge_run(const ResultRecord& record, bool requires_no_regression) {
  const RunRecord& run = record.runs.back();
  const RunSpec& spec = record.sealed.run;
  for (const GateResult& g : run.gates) {
    if (g.passed) continue;
    return gate_error("arm " + spec.arms[static_cast<std::size_t>(g.arm)].name + " failed the " +
                      g.gate + " gate at C" +
                      std::to_string(spec.points[static_cast<std::size_t>(g.point)].concurrency) +
                      ", stream " + g.stream + ": " + g.detail);
  }
  if (!run.is_complete()) {
    return environment_error(std::string("the run is not complete (") + name_of(run.end) + ", " +
                             run.end_detail + "); the record says so and holds the whole rounds");
  }
  if (!requires_no_regression) return {};
  for (const PointVerdict& v : derive(record, run).verdict.points) {
    if (v.rules_out_regression) continue;
    return gate_error("--require no-regression: arm " +
                      spec.arms[static_cast<std::size_t>(v.arm)].name + " at C" +
                      std::to_string(spec.points[static_cast<std::size_t>(v.point)].concurrency) +
                      ": a loss beyond the minimum effect is not ruled out");
  }
  return {};
}

Expected<std::string> new_experiment(const std::string& experiments_folder,
                                     const std::string& slug) {
  if (!is_slug(slug)) {
    return bad_input("slug '" + slug + "' may hold a-z, 0-9 and - (at most 60, not - first)");
  }
  if (Status s = make_folder(experiments_folder); !s.ok()) return s.error();
  int next = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(experiments_folder, error)) {
    int number = 0;
    if (std::sscanf(entry.path().filename().c_str(), "%4d-", &number) == 1) {
      next = std::max(next, number + 1);
    }
  }
  if (error) return environment_error(experiments_folder + ": " + error.message());
  constexpr int k_number_max = 9999;
  if (next > k_number_max) return bad_input(experiments_folder + ": all numbers are taken");
  char number[16];
  std::snprintf(number, sizeof number, "%04d", next);
  const std::string folder = experiments_folder + "/" + number + "-" + slug;
  if (Status s = make_folder(folder); !s.ok()) return s.error();
  if (Status s = write_file(folder + "/" + k_plan_file, manifest_template()); !s.ok()) {
    ::rmdir(folder.c_str());
    return s.error();
  }
  return folder;
}

Expected<std::string> seal_plan(const LoadedPlan& plan) {
  if (plan.registration.state != PlanState::registered) {
    return bad_input(plan.folder + ": lies in no git repository: only a committed plan is sealed");
  }
  return seal(plan.identity(), plan.resolved.run);
}

Expected<RunRecord> import_run(const LoadedPlan& plan, const std::string& output_text,
                               const std::string& name) {
  const auto document = verified_document(output_text, name);
  if (!document.ok()) return document.error();
  std::string sealed_text;
  auto run = parse_runner_output(*document, name, sealed_text);
  if (!run.ok()) return run.error();
  const auto sealed = unseal(sealed_text);
  if (!sealed.ok()) return sealed.error();
  if (sealed->identity.plan_sha256 != plan.registration.plan_sha256 ||
      sealed->identity.blob != plan.registration.blob) {
    return bad_input(name + ": was made from another plan (sha256 " +
                     sealed->identity.plan_sha256.substr(0, 16) + ") than " + plan.folder +
                     " holds (sha256 " + plan.registration.plan_sha256.substr(0, 16) + ")");
  }
  if (sealed->run != plan.resolved.run) {
    return bad_input(name + ": its workload is not what this plan's trace gives");
  }
  if (run->sealed_sha256 != sha256_hex(seal({}, plan.resolved.run))) {
    return bad_input(name + ": run.sealed_sha256 is not the hash of the plan that it came with");
  }
  return run;
}

std::vector<ListEntry> list_experiments(const std::string& experiments_folder) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(experiments_folder, error)) {
    if (fs::exists(entry.path() / k_plan_file)) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  std::vector<ListEntry> out;
  for (const fs::path& folder : folders) out.push_back(list_one(folder));
  return out;
}

}  // namespace splitwave::experiment
