// The file's outer form: plan, pre-registration, seal, runs, and the derived part of each run.
#include "experiment/record.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json_writer.h"
#include "base/sha256.h"
#include "experiment/json_fields.h"

namespace splitwave::experiment {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* k_schema = "splitwave-result";

void write_interval(JsonWriter& out, const char* name, const stats::Interval& i) {
  out.key(name).begin_row().value(i.low).value(i.estimate).value(i.high).end_array();
}

void write_point(JsonWriter& out, const ResultRecord& record, const PointVerdict& v) {
  const RunSpec& run = record.sealed.run;
  const PointSpec& point = run.points[static_cast<std::size_t>(v.point)];
  out.begin_object()
      .field("arm", run.arms[static_cast<std::size_t>(v.arm)].name)
      .field("concurrency", point.concurrency)
      .field("weight", point.weight)
      .field("verdict", stats::effect_name(v.effect))
      .field("percent", percent_of(v.ratio.estimate));
  out.key("percent_interval").begin_row();
  out.value(percent_of(v.ratio.low)).value(percent_of(v.ratio.high)).end_array();
  out.key("percent_simultaneous").begin_row();
  out.value(percent_of(v.simultaneous.low)).value(percent_of(v.simultaneous.high)).end_array();
  out.field("p", v.p_value)
      .field("p_holm", v.adjusted_p)
      .field("rules_out_regression", v.rules_out_regression)
      .field("same_launch", v.is_same_launch)
      .field("incumbent_us", v.incumbent_us)
      .field("arm_us", v.arm_us)
      .field("arm_us_p25", v.arm_us_low)
      .field("arm_us_p75", v.arm_us_high)
      .field("arm_kilocycles", v.arm_kilocycles)
      .field("note", v.note)
      .end_object();
}

void write_points(JsonWriter& out, const ResultRecord& record, const char* name,
                  const std::vector<PointVerdict>& points) {
  out.key(name).begin_array();
  for (const PointVerdict& v : points) write_point(out, record, v);
  out.end_array();
}

void write_ranges(JsonWriter& out, const std::vector<Range>& ranges) {
  out.key("ranges").begin_array();
  for (const Range& r : ranges) out.begin_row().value(r.first).value(r.last).end_array();
  out.end_array();
}

void write_decision(JsonWriter& out, const RunSpec& run, const Decision& d) {
  out.begin_object()
      .field("kind", name_of(d.kind))
      .field("arm", run.arms[static_cast<std::size_t>(d.arm)].name);
  write_ranges(out, d.ranges);
  out.field("reason", d.reason).key("offers").begin_array();
  for (const RangeOffer& offer : d.offers) {
    out.begin_object().field("arm", run.arms[static_cast<std::size_t>(offer.arm)].name);
    write_ranges(out, offer.ranges);
    out.end_object();
  }
  out.end_array().end_object();
}

void write_derived(JsonWriter& out, const ResultRecord& record, const Derived& derived) {
  const Verdict& v = derived.verdict;
  const RunSpec& run = record.sealed.run;
  out.begin_object().field("rounds_used", v.rounds_used);
  out.key("rounds_dropped").begin_row();
  for (const int r : v.rounds_dropped) out.value(r);
  out.end_array();
  out.key("clock_band_ghz").begin_row();
  out.value(v.clock.low).value(v.clock.reference).value(v.clock.high).end_array();
  out.field("clock_trend_share", v.clock_trend.total_share)
      .field("time_trend_share", v.time_trend.total_share)
      .field("drifted", v.has_drifted)
      .field("noise_floor_percent", 100 * v.noise_floor)
      .field("noisy", v.is_noisy);
  write_points(out, record, "aa_pair", v.same);
  write_points(out, record, "points", v.points);
  out.key("arms").begin_array();
  for (const ArmVerdict& arm : v.arms) {
    out.begin_object()
        .field("arm", run.arms[static_cast<std::size_t>(arm.arm)].name)
        .field("measured", arm.is_measured)
        .field("no_regression", arm.no_regression);
    write_interval(out, "score", arm.score);
    out.end_object();
  }
  out.end_array().key("decision");
  write_decision(out, run, derived.decision);
  out.end_object();
}

void write_sealed(JsonWriter& out, const SealedPlan& sealed) {
  out.key("sealed").begin_array();
  std::string text = seal(sealed.identity, sealed.run);
  std::size_t from = 0;
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', from)) {
    out.value(std::string_view(text).substr(from, at - from));
    from = at + 1;
  }
  out.end_array();
}

// Equal JSON, numbers to 1e-9: another machine's logarithm may differ in its last bit.
bool is_same_value(const json& a, const json& b) {
  if (a.is_number() && b.is_number()) {
    const double x = a.get<double>();
    const double y = b.get<double>();
    return std::abs(x - y) <= 1e-9 * std::max({1.0, std::abs(x), std::abs(y)});
  }
  if (a.type() != b.type() || a.size() != b.size()) return false;
  if (a.is_array()) {
    return std::equal(a.begin(), a.end(), b.begin(), is_same_value);
  }
  if (!a.is_object()) return a == b;
  return std::all_of(a.items().begin(), a.items().end(), [&](const auto& item) {
    return b.contains(item.key()) && is_same_value(item.value(), b[item.key()]);
  });
}

// The stored derived part must be what the raw samples give.
Status check_derived(const ResultRecord& record, const RunRecord& run, const json& stored,
                     const std::string& where) {
  JsonWriter out;
  write_derived(out, record, derive(record, run));
  const json fresh = json::parse(out.str());
  if (is_same_value(fresh, stored)) return {};
  for (const auto& [key, value] : fresh.items()) {
    if (!stored.is_object() || !stored.contains(key) || !is_same_value(value, stored[key])) {
      return gate_error(
          where + "." + key +
          ": the stored value is not what the raw samples give; the record was edited, "
          "or written by another version of the analysis");
    }
  }
  return gate_error(where + ": holds fields that the analysis does not give");
}

Expected<SealedPlan> parse_sealed(JsonFields& top) {
  std::string text;
  for (const json& line : top.list("sealed")) {
    if (!line.is_string()) return bad_input(top.path("sealed") + ": holds something but lines");
    text += line.get<std::string>() + "\n";
  }
  if (top.problem()) return *top.problem();
  auto sealed = unseal(text);
  if (!sealed.ok()) return bad_input(top.path("sealed") + ": " + sealed.error().message);
  return sealed;
}

}  // namespace

Derived derive(const ResultRecord& record, const RunRecord& run) {
  Derived out;
  out.verdict = analyse(record.sealed.run, run);
  out.decision = decide(record.sealed.run, run, out.verdict);
  return out;
}

std::string to_json(const ResultRecord& record) {
  const SealedPlan& sealed = record.sealed;
  JsonWriter out;
  out.begin_object()
      .field("schema", k_schema)
      .field("version", k_result_version)
      .field("experiment", sealed.run.slug);
  out.key("plan")
      .begin_object()
      .field("path", record.plan_path)
      .field("sha256", sealed.identity.plan_sha256)
      .field("preregistration", record.plan_state == PlanState::registered ? "registered" : "none")
      .field("commit", sealed.identity.commit)
      .field("blob", sealed.identity.blob)
      .field("text", record.plan_text)
      .end_object();
  write_sealed(out, sealed);
  out.key("runs").begin_array();
  for (const RunRecord& run : record.runs) {
    out.begin_object().key("derived");
    write_derived(out, record, derive(record, run));
    out.key("raw");
    write_json(out, run);
    out.end_object();
  }
  out.end_array().end_object();
  return out.str();
}

Expected<ResultRecord> parse_result(std::string_view text, const std::string& name) {
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return bad_input(name + ": is not a JSON object");
  JsonFields top(document, name);
  const std::string schema = top.text("schema");
  const auto version = top.whole("version", 0, 1 << 20);
  if (!top.problem() && schema != k_schema)
    return bad_input(top.path("schema") + ": is not " + k_schema);
  if (!top.problem() && version != k_result_version) {
    return bad_input(top.path("version") + ": " + std::to_string(version) +
                     " is unknown; this build reads " + std::to_string(k_result_version));
  }
  ResultRecord record;
  JsonFields plan = top.object("plan");
  record.plan_path = plan.text("path");
  record.plan_text = plan.text("text");
  record.plan_state = plan.text("preregistration") == "registered" ? PlanState::registered
                                                                   : PlanState::no_repository;
  const std::string plan_sha256 = plan.text("sha256");
  auto sealed = parse_sealed(top);
  if (top.problem()) return *top.problem();
  if (plan.problem()) return *plan.problem();
  if (!sealed.ok()) return sealed.error();
  record.sealed = std::move(*sealed);
  const std::string hash = sha256_hex(record.plan_text);
  if (hash != plan_sha256 || hash != record.sealed.identity.plan_sha256) {
    return bad_input(plan.path("sha256") + ": the plan's text does not have this hash");
  }
  auto manifest = parse_manifest(record.plan_text, name + " plan", record.sealed.run.slug);
  if (!manifest.ok()) return manifest.error();
  record.manifest = std::move(*manifest);
  std::size_t i = 0;
  for (const json& item : top.list("runs")) {
    const std::string where = name + ": runs[" + std::to_string(i++) + "]";
    if (!item.is_object() || !item.contains("raw") || !item.contains("derived")) {
      return bad_input(where + ": holds no raw and derived part");
    }
    auto run = parse_run(item["raw"], where + ".raw", record.sealed.run);
    if (!run.ok()) return run.error();
    record.runs.push_back(std::move(*run));
    if (Status s = check_derived(record, record.runs.back(), item["derived"], where + ".derived");
        !s.ok()) {
      return s.error();
    }
  }
  if (top.problem()) return *top.problem();
  if (record.runs.empty()) return bad_input(name + ": holds no run");
  return record;
}

Expected<ResultRecord> read_result(const std::string& folder) {
  const std::string path = folder + "/" + k_result_file;
  const auto text = read_file(path, k_result_bytes_max);
  if (!text.ok()) return text.error();
  return parse_result(*text, path);
}

bool has_result(const std::string& folder) {
  struct stat info {};
  return ::stat((folder + "/" + k_result_file).c_str(), &info) == 0;
}

std::string summary_json(const ResultRecord& record, const std::string& folder) {
  const RunRecord& run = record.runs.back();
  const Derived derived = derive(record, run);
  JsonWriter out;
  out.begin_object().field("experiment", record.sealed.run.slug).key("verdict");
  write_decision(out, record.sealed.run, derived.decision);
  out.field("complete", run.is_complete())
      .field("end", name_of(run.end))
      .field("rounds_used", derived.verdict.rounds_used)
      .field("rounds_dropped", static_cast<int>(derived.verdict.rounds_dropped.size()))
      .field("noise_floor_percent", 100 * derived.verdict.noise_floor)
      .field("drifted", derived.verdict.has_drifted)
      .field("preregistered", record.plan_state == PlanState::registered)
      .field("backend", run.backend)
      .field("report", folder + "/" + k_report_file);
  write_points(out, record, "points", derived.verdict.points);
  write_points(out, record, "aa_pair", derived.verdict.same);
  out.key("gates").begin_array();
  for (const GateResult& g : run.gates) {
    out.begin_object()
        .field("arm", record.sealed.run.arms[static_cast<std::size_t>(g.arm)].name)
        .field("concurrency",
               record.sealed.run.points[static_cast<std::size_t>(g.point)].concurrency)
        .field("stream", g.stream)
        .field("gate", g.gate)
        .field("passed", g.passed)
        .field("worst", g.worst)
        .field("detail", g.detail)
        .end_object();
  }
  out.end_array().end_object();
  return out.str();
}

Expected<RunRecord> parse_runner_output(std::string_view text, const std::string& name,
                                        std::string& sealed_text) {
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return bad_input(name + ": is not a JSON object");
  JsonFields top(document, name);
  sealed_text = top.text("sealed_text");
  if (top.problem()) return *top.problem();
  const auto sealed = unseal(sealed_text);
  if (!sealed.ok()) return bad_input(name + ": " + sealed.error().message);
  if (!document.contains("run")) return bad_input(name + ": run: missing");
  return parse_run(document["run"], name + ": run", sealed->run);
}

}  // namespace splitwave::experiment
