// One function a table of experiment.toml. The order of the checks is the order of the file.
#include "experiment/manifest.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "base/check.h"
#include "experiment/toml_fields.h"
#include "splitwave/plan.h"

namespace splitwave::experiment {
namespace {

constexpr std::size_t k_projections_max = 64;
constexpr int k_page_size_max = 65'536;
constexpr int k_context_max = 1 << 24;
constexpr double k_percent_max = 10'000;
constexpr std::int64_t k_seed_max = std::int64_t{1} << 53;

bool is_name(const std::string& text) {
  constexpr std::size_t k_name_max = 40;
  return !text.empty() && text.size() <= k_name_max &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") == std::string::npos;
}

// The plan text and the variant of an arm, as one normalised override text.
std::string read_plan(Fields& arm) {
  const std::string text = arm.text_or("plan", "");
  const std::string variant = arm.text_or("variant", "");
  auto overrides = parse_plan_overrides(text);
  if (!overrides.ok()) {
    arm.refuse("plan", overrides.error().message);
    return {};
  }
  if (!variant.empty()) {
    if (overrides->variant) arm.refuse("variant", "the plan names a variant already");
    overrides->variant = variant;
  }
  return to_string(*overrides);
}

// planted = "slow:5", "flip_bit" or "drop_key".
void read_planted(Fields& arm, ArmSpec& spec) {
  const std::string text = arm.text_or("planted", "none");
  constexpr std::string_view k_slow = "slow:";
  if (text == "none") return;
  if (text == "flip_bit") {
    spec.planted = Planted::flip_bit;
  } else if (text == "drop_key") {
    spec.planted = Planted::drop_key;
  } else if (text.rfind(k_slow, 0) == 0) {
    spec.planted = Planted::slow;
    std::istringstream in(text.substr(k_slow.size()));
    if (!(in >> spec.planted_percent) || in.peek() != EOF || !(spec.planted_percent > 0) ||
        spec.planted_percent > 1000) {
      arm.refuse("planted", "'" + text + "': the percentage must lie above 0 and at most at 1000");
    }
  } else {
    arm.refuse("planted", "'" + text + "' is unknown: one of slow:PERCENT, flip_bit, drop_key");
  }
}

void read_arms(Fields& top, TomlProblems& problems, Manifest& m) {
  std::set<std::string> names;
  std::set<std::string> plans;
  const auto tables = top.tables("arm", true, k_arms_max);
  for (std::size_t i = 0; i < tables.size(); ++i) {
    Fields arm(*tables[i], "arm[" + std::to_string(i) + "]", problems);
    ArmSpec spec;
    spec.name = arm.text("name");
    if (!problems.first && !is_name(spec.name)) {
      arm.refuse("name", "'" + spec.name + "' may hold a-z, 0-9, -, _ and . (at most 40)");
    }
    if (!names.insert(spec.name).second) {
      arm.refuse("name", "'" + spec.name + "' names two arms");
    }
    m.arm_notes.push_back(arm.text("what"));
    spec.plan = read_plan(arm);
    read_planted(arm, spec);
    if (i == 0 && spec.planted != Planted::none) {
      arm.refuse("planted", "the incumbent (the first arm) cannot hold a planted fault");
    }
    if (spec.planted == Planted::none && !plans.insert(spec.plan).second) {
      arm.refuse("plan", "'" + spec.plan +
                             "' is another arm's plan too (the incumbent runs twice anyway: the "
                             "A/A pair)");
    }
    arm.finish();
    m.run.arms.push_back(std::move(spec));
  }
  if (!problems.first && m.run.arms.size() < 2) {
    top.refuse("arm", "an experiment has at least two arms, the incumbent first");
  }
}

// Refuses points that skip an octave: launch choices lose most between powers of two.
void check_between_powers(Fields& top, const std::vector<int>& points) {
  for (int low = 2; 2 * low <= points.back(); low *= 2) {
    if (low < points.front()) continue;
    const bool is_covered =
        std::any_of(points.begin(), points.end(), [&](int p) { return p > low && p < 2 * low; });
    if (is_covered) continue;
    top.refuse("points",
               "nothing between " + std::to_string(low) + " and " + std::to_string(2 * low) +
                   ": add a value there (launch choices lose most between powers of two)");
    return;
  }
}

void read_points(Fields& top, TomlProblems& problems, Manifest& m) {
  std::vector<int> points;
  for (const std::int64_t p : top.wholes("points", 1, k_concurrency_max, k_points_max)) {
    if (!points.empty() && p <= points.back()) {
      top.refuse("points", std::to_string(p) + " after " + std::to_string(points.back()) +
                               ": the values must ascend");
    }
    points.push_back(static_cast<int>(p));
  }
  if (problems.first) return;
  check_between_powers(top, points);
  for (const int p : points) m.run.points.push_back({p, 0, {}});
}

void read_explicit_batches(Fields& workload, TomlProblems& problems, Manifest& m) {
  const auto tables = workload.tables("batch", false, k_points_max * k_batches_max);
  for (std::size_t i = 0; i < tables.size(); ++i) {
    Fields batch(*tables[i], "workload.batch[" + std::to_string(i) + "]", problems);
    const std::int64_t concurrency = batch.whole("point", 1, k_concurrency_max);
    Batch contexts;
    for (const std::int64_t c : batch.wholes("contexts", 0, k_context_max, k_concurrency_max)) {
      contexts.contexts.push_back(static_cast<int>(c));
    }
    batch.finish();
    if (problems.first) return;
    const auto point = std::find_if(m.run.points.begin(), m.run.points.end(),
                                    [&](const auto& p) { return p.concurrency == concurrency; });
    if (point == m.run.points.end()) {
      batch.refuse("point", std::to_string(concurrency) + " is not one of the points");
      return;
    }
    if (contexts.contexts.size() != static_cast<std::size_t>(concurrency)) {
      batch.refuse("contexts", std::to_string(contexts.contexts.size()) + " contexts for " +
                                   std::to_string(concurrency) + " slots");
      return;
    }
    point->batches.push_back(std::move(contexts));
  }
  m.workload.is_explicit = !tables.empty();
  if (tables.empty()) return;
  for (const PointSpec& p : m.run.points) {
    if (p.batches.empty() || p.batches.size() > k_batches_max) {
      workload.refuse("batch", "point " + std::to_string(p.concurrency) + " has " +
                                   std::to_string(p.batches.size()) + " batches; 1 to " +
                                   std::to_string(k_batches_max) + " are accepted");
      return;
    }
  }
}

void read_workload(Fields& top, TomlProblems& problems, Manifest& m) {
  const toml::table* table = top.table("workload", true);
  if (table == nullptr) return;
  Fields w(*table, "workload", problems);
  RunSpec& run = m.run;
  constexpr std::string_view k_backends[] = {"auto", "cpu", "cuda"};
  constexpr std::string_view k_models[] = {"v4-flash", "v4-pro", "v32"};
  constexpr std::string_view k_localities[] = {"random_pages", "contiguous", "shared"};
  constexpr std::string_view k_caches[] = {"cold", "warm"};
  constexpr std::string_view k_executions[] = {"eager", "graph"};
  run.backend = k_backends[w.choice_or("backend", k_backends, 0)];
  run.threads = static_cast<int>(w.whole_or("threads", 0, 1024, 0));
  run.model = k_models[w.choice("model", k_models)];
  const auto mix = model_mix(run.model, 1);
  run.format = mix->format;
  run.heads = static_cast<int>(w.whole_or("heads", 1, k_heads_max, mix->heads));
  if (w.has("streams")) {
    for (const std::string& name : w.texts("streams", 8)) run.streams.push_back({name, 0, 0, 0, 0});
  }
  run.main_page_size = static_cast<int>(w.whole_or("page_size", 1, k_page_size_max, 64));
  run.extra_page_size = static_cast<int>(w.whole_or("extra_page_size", 1, k_page_size_max, 64));
  run.locality = static_cast<Locality>(w.choice_or("locality", k_localities, 0));
  run.cache = static_cast<CacheState>(w.choice_or("cache", k_caches, 0));
  run.execution = static_cast<Execution>(w.choice_or("execution", k_executions, 0));
  run.seed = static_cast<std::uint64_t>(w.whole("seed", 0, k_seed_max));
  run.sample_us_min = w.number_or("sample_us_min", 0, 1e7, run.sample_us_min);
  read_explicit_batches(w, problems, m);
  if (m.workload.is_explicit) {
    if (w.has("trace")) w.refuse("trace", "the batches are explicit: give one or the other");
  } else {
    m.workload.trace = w.text("trace");
    m.workload.batches = static_cast<int>(w.whole("batches", 1, k_batches_max));
  }
  if (run.backend == "cpu" && run.execution == Execution::graph) {
    w.refuse("execution", "the CPU backend has no graphs: use \"eager\"");
  }
  w.finish();
}

void read_load_mix(Fields& top, TomlProblems& problems, Manifest& m) {
  const toml::table* table = top.table("load_mix", true);
  if (table == nullptr) return;
  Fields mix(*table, "load_mix", problems);
  m.load_mix.from_trace = mix.flag_or("from_trace", false);
  if (m.load_mix.from_trace) {
    if (m.workload.is_explicit) mix.refuse("from_trace", "the workload has no trace");
    m.load_mix.model.rate_scale = mix.number_or("rate_scale", 1e-3, 1e4, 1);
    m.load_mix.model.fixed_ms = mix.number("fixed_ms", 0, 1e5);
    m.load_mix.model.marginal_ms = mix.number("marginal_ms", 1e-6, 1e5);
  } else {
    const auto weights = mix.numbers("weights", 0, 1e6, k_points_max);
    double sum = 0;
    for (const double w : weights) sum += w;
    if (!problems.first && weights.size() != m.run.points.size()) {
      mix.refuse("weights", std::to_string(weights.size()) + " weights for " +
                                std::to_string(m.run.points.size()) + " points");
    } else if (!problems.first && !(sum > 0)) {
      mix.refuse("weights", "their sum is 0");
    }
    for (std::size_t i = 0; !problems.first && i < weights.size(); ++i) {
      m.run.points[i].weight = weights[i] / sum;
    }
  }
  mix.finish();
}

int read_arm_name(Fields& fields, const Manifest& m, TomlProblems& problems) {
  std::vector<std::string_view> names;
  for (std::size_t i = 1; i < m.run.arms.size(); ++i) names.emplace_back(m.run.arms[i].name);
  if (problems.first || names.empty()) return 0;
  return fields.choice("arm", names) + 1;
}

// at = "mix" or one of the points.
int read_at(Fields& fields, const toml::table& table, const Manifest& m, TomlProblems& problems) {
  if (!table.contains("at") || table["at"].is_string()) {
    constexpr std::string_view k_at[] = {"mix"};
    (void)fields.choice_or("at", k_at, 0);
    return k_at_mix;
  }
  const int at = static_cast<int>(fields.whole("at", 1, k_concurrency_max));
  const bool is_point = std::any_of(m.run.points.begin(), m.run.points.end(),
                                    [&](const PointSpec& p) { return p.concurrency == at; });
  if (!problems.first && !is_point) {
    fields.refuse("at", std::to_string(at) + " is not one of the points");
  }
  return at;
}

void read_projections(Fields& top, TomlProblems& problems, Manifest& m) {
  const auto tables = top.tables("projection", true, k_projections_max);
  for (std::size_t i = 0; i < tables.size() && !problems.first; ++i) {
    Fields p(*tables[i], "projection[" + std::to_string(i) + "]", problems);
    Projection out;
    out.arm = read_arm_name(p, m, problems);
    out.at = read_at(p, *tables[i], m, problems);
    const auto percent = p.numbers("percent", -100, k_percent_max, 3);
    if (!problems.first && percent.size() != 3) {
      p.refuse("percent", "three numbers are needed: [low, central, high]");
    } else if (!problems.first && !(percent[0] <= percent[1] && percent[1] <= percent[2])) {
      p.refuse("percent", "[low, central, high] must not descend");
    } else if (!problems.first) {
      out.low_percent = percent[0];
      out.central_percent = percent[1];
      out.high_percent = percent[2];
    }
    out.derivation = p.text("derivation");
    p.finish();
    m.projections.push_back(std::move(out));
  }
}

void read_falsified_by(Fields& top, TomlProblems& problems, Manifest& m) {
  const toml::table* table = top.table("falsified_by", true);
  if (table == nullptr || problems.first) return;
  Fields f(*table, "falsified_by", problems);
  m.falsified_by.text = f.text("text");
  m.falsified_by.arm = read_arm_name(f, m, problems);
  m.falsified_by.at = read_at(f, *table, m, problems);
  m.falsified_by.is_above = f.has("above_percent");
  if (m.falsified_by.is_above && f.has("below_percent")) {
    f.refuse("above_percent", "below_percent is given too: one bound refutes");
  }
  m.falsified_by.bound_percent =
      f.number(m.falsified_by.is_above ? "above_percent" : "below_percent", -100, k_percent_max);
  f.finish();
}

void read_stopping(Fields& top, TomlProblems& problems, Manifest& m) {
  const toml::table* table = top.table("stopping", true);
  if (table == nullptr) return;
  Fields s(*table, "stopping", problems);
  constexpr std::string_view k_rules[] = {"fixed", "anytime"};
  constexpr int k_rounds_least = 4;
  Stopping& stop = m.run.stopping;
  stop.rule = static_cast<StopRule>(s.choice("rule", k_rules));
  stop.rounds = static_cast<int>(s.whole("rounds", k_rounds_least, k_rounds_max));
  stop.rounds_min = stop.rule == StopRule::anytime
                        ? static_cast<int>(s.whole_or("rounds_min", k_rounds_least, stop.rounds,
                                                      std::min(stop.rounds, 8)))
                        : stop.rounds;
  stop.alpha = s.number_or("alpha", 1e-4, 0.2, stop.alpha);
  s.finish();
}

void read_analysis(Fields& top, TomlProblems& problems, Manifest& m) {
  Analysis& a = m.run.analysis;
  a.minimum_effect = top.number("minimum_effect_percent", 0.05, 100) / 100;
  const bool is_anytime = m.run.stopping.rule == StopRule::anytime;
  if (is_anytime) a.trimmed = false;  // the sequential test is one of the mean
  const toml::table* table = top.table("analysis", false);
  if (table == nullptr) return;
  Fields f(*table, "analysis", problems);
  constexpr std::string_view k_locations[] = {"trimmed_mean", "mean"};
  a.trimmed = f.choice_or("location", k_locations, is_anytime ? 1 : 0) == 0;
  a.resamples = static_cast<int>(f.whole_or("resamples", 1'000, 100'000, a.resamples));
  a.seed = static_cast<std::uint64_t>(f.whole_or("seed", 0, k_seed_max, 1));
  a.clock_band = f.number_or("clock_band_percent", 0.1, 100, 100 * a.clock_band) / 100;
  if (is_anytime && a.trimmed) {
    f.refuse("location", "the anytime rule tests the mean: use \"mean\"");
  }
  f.finish();
}

void read_gates(Fields& top, Manifest& m) {
  GateChoice& gates = m.run.gates;
  gates = {false, false, false};
  constexpr std::string_view k_gates[] = {"invariance", "accuracy", "repeat"};
  for (const std::string& gate : top.texts("gates", 8)) {
    if (gate == k_gates[0]) {
      gates.invariance = true;
    } else if (gate == k_gates[1]) {
      gates.accuracy = true;
    } else if (gate == k_gates[2]) {
      gates.repeat = true;
    } else {
      top.refuse("gates",
                 "'" + gate.substr(0, 40) + "' is unknown: one of invariance, accuracy, repeat");
      return;
    }
  }
  if (!gates.invariance || !gates.accuracy || !gates.repeat) {
    top.refuse("gates",
               "needs all of \"invariance\" (exact arms), \"accuracy\" and \"repeat\": no "
               "arm is timed before it has passed them");
  }
}

Manifest read_all(const toml::table& root, TomlProblems& problems, const std::string& slug) {
  Manifest m;
  m.run.slug = slug;
  Fields top(root, "", problems);
  (void)top.whole("version", k_manifest_version, k_manifest_version);
  m.question = top.text("question");
  m.why = top.text("why");
  m.rival = top.text("rival");
  m.rollback = top.text("rollback");
  constexpr std::string_view k_metrics[] = {"step_us"};
  constexpr std::string_view k_directions[] = {"lower"};
  m.metric = k_metrics[top.choice("metric", k_metrics)];
  m.direction = k_directions[top.choice("direction", k_directions)];
  read_arms(top, problems, m);
  read_points(top, problems, m);
  if (problems.first) return m;
  read_workload(top, problems, m);
  read_load_mix(top, problems, m);
  read_stopping(top, problems, m);
  read_analysis(top, problems, m);
  read_gates(top, m);
  read_projections(top, problems, m);
  read_falsified_by(top, problems, m);
  top.finish();
  return m;
}

}  // namespace

Expected<Manifest> parse_manifest(std::string_view text, const std::string& file,
                                  const std::string& slug) {
  if (static_cast<std::int64_t>(text.size()) > k_manifest_bytes_max) {
    return bad_input(file + ": " + std::to_string(text.size()) + " bytes; at most " +
                     std::to_string(k_manifest_bytes_max) + " are accepted");
  }
  TomlProblems problems{file, std::nullopt};
  try {
    const toml::table root = toml::parse(text, file);
    Manifest m = read_all(root, problems, slug);
    if (problems.first) return *problems.first;
    return m;
  } catch (const toml::parse_error& e) {
    problems.add(e.source(), "TOML", std::string(e.description()));
    return *problems.first;
  }
}

}  // namespace splitwave::experiment
