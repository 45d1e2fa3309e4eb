// The steps of a run, in order: read back, gate, measure.
#include "experiment/runner.h"

#include <cstdlib>
#include <ctime>
#include <optional>

#include "base/files.h"
#include "base/json_writer.h"
#include "base/progress.h"
#include "base/sha256.h"
#include "base/text_table.h"
#include "experiment/schedule.h"
#include "experiment/seal.h"
#include "experiment/verdict.h"
#include "measure/fingerprint.h"
#include "measure/host_timer.h"

namespace splitwave::experiment {
namespace {

constexpr std::int64_t k_executable_bytes_max = std::int64_t{4} << 30;

std::string utc_now(double plus_s = 0) {
  const std::time_t now = std::time(nullptr) + static_cast<std::time_t>(plus_s);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string fingerprint_json() {
  JsonWriter json;
  measure::write_json(json, measure::collect_fingerprint());
  // On one line: white space outside of texts goes.
  std::string line;
  bool is_inside = false;
  char last = 0;
  for (const char c : json.str()) {
    if (c == '"' && last != '\\') is_inside = !is_inside;
    last = last == '\\' ? 0 : c;
    if (is_inside || (c != ' ' && c != '\n')) line += c;
  }
  return line;
}

double load_average() {
  double load = -1;
  return getloadavg(&load, 1) == 1 ? load : -1;
}

class Runner {
 public:
  Runner(const RunSpec& run, ArmExecutor& executor, const RunnerOptions& options)
      : run_(run), executor_(executor), options_(options) {}

  // Fills echoes and predictions; refuses arms that do not do what their plan says, or nothing new.
  Status read_back() {
    for (int arm = 0; arm < arms(); ++arm) {
      for (const PointSpec& p : run_.points) {
        if (Status s = executor_.check_took_effect(arm, p.concurrency); !s.ok()) return s;
        auto echoes = executor_.echo(arm, p.concurrency);
        if (!echoes.ok()) return echoes.error();
        for (Echo& e : *echoes) record_.echoes.push_back(std::move(e));
      }
      if (Status s = predict(arm); !s.ok()) return s;
    }
    for (int arm = 1; arm < arms(); ++arm) {
      if (run_.arms[index(arm)].planted != Planted::none || differs_somewhere(arm)) continue;
      return gate_error("arm " + run_.arms[index(arm)].name + " (" + run_.arms[index(arm)].plan +
                        ") launches what the incumbent launches at every point: it did not take "
                        "effect, nothing would be measured");
    }
    return {};
  }

  RunRecord execute() {
    record_.sealed_sha256 = sealed_sha256();
    record_.started_utc = utc_now();
    record_.rounds_planned = run_.stopping.rounds;
    const ExecutorInfo info = executor_.info();
    record_.backend = info.backend;
    record_.backend_reason = info.backend_reason;
    record_.device = info.device;
    record_.clock_source = info.clock_source;
    record_.fingerprint_before = fingerprint_json();
    const auto binary = read_file("/proc/self/exe", k_executable_bytes_max);
    record_.executable_sha256 = binary.ok() ? sha256_hex(*binary) : "unknown";
    for (int p = 0; p < points(); ++p) {
      record_.calls_per_sample.push_back(executor_.calls_per_sample(p));
      record_.index_sets.push_back(executor_.index_sets(p));
    }
    record_.arm_ended.assign(run_.arms.size(), 0);
    if (gate_all()) measure_all();
    record_.fingerprint_after = fingerprint_json();
    return std::move(record_);
  }

 private:
  [[nodiscard]] int arms() const { return static_cast<int>(run_.arms.size()); }
  [[nodiscard]] int points() const { return static_cast<int>(run_.points.size()); }
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] bool is_interrupted() const {
    return options_.interrupted != nullptr && options_.interrupted->load();
  }
  // Of the sealed form without an identity: the same for a sealed and an unsealed run of one plan.
  [[nodiscard]] std::string sealed_sha256() const { return sha256_hex(seal({}, run_)); }

  Status predict(int arm) {
    Prediction out;
    out.arm = arm;
    for (int c = 1; c <= run_.rows_max(); ++c) {
      const auto mine = executor_.echo(arm, c);
      if (!mine.ok()) return mine.error();
      const auto base = executor_.echo(0, c);
      if (!base.ok()) return base.error();
      double step_us = 0;
      bool is_same = true;
      for (std::size_t s = 0; s < mine->size(); ++s) {
        step_us += (*mine)[s].predicted_us * run_.streams[s].layers;
        is_same = is_same && (*mine)[s].is_same_launch((*base)[s]);
      }
      out.step_us.push_back(step_us);
      out.same_as_incumbent.push_back(is_same ? 1 : 0);
    }
    record_.predictions.push_back(std::move(out));
    return {};
  }

  [[nodiscard]] bool differs_somewhere(int arm) const {
    const Prediction& p = record_.predictions[index(arm)];
    for (const PointSpec& point : run_.points) {
      if (p.same_as_incumbent[index(point.concurrency - 1)] == 0) return true;
    }
    return false;
  }

  // False when nothing is left to measure; the record says why.
  bool gate_all() {
    const measure::Stopwatch watch;
    std::optional<Progress> progress;
    if (options_.shows_progress) progress.emplace("gates", points());
    std::vector<int> candidates;
    for (int arm = 0; arm < arms(); ++arm) candidates.push_back(arm);
    for (int p = 0; p < points(); ++p) {
      if (is_interrupted()) return end(RunEnd::interrupted, "before the gates were through");
      auto results = executor_.run_gates(p, candidates);
      if (!results.ok()) return end(RunEnd::error, results.error().message);
      for (GateResult& g : *results) {
        if (!g.passed) record_.arm_ended[index(g.arm)] = 1;
        record_.gates.push_back(std::move(g));
      }
      std::erase_if(candidates, [&](int arm) { return record_.arm_ended[index(arm)] != 0; });
      if (progress) progress->advance();
    }
    record_.gates_s = watch.elapsed_us() * 1e-6;
    if (record_.arm_ended[0] != 0) return end(RunEnd::no_arm_left, "the incumbent failed a gate");
    for (int arm = 1; arm < arms(); ++arm) {
      if (record_.arm_ended[index(arm)] == 0) return true;
    }
    return end(RunEnd::no_arm_left, "every arm but the incumbent failed a gate");
  }

  bool end(RunEnd why, const std::string& detail) {
    record_.end = why;
    record_.end_detail = detail;
    return false;
  }

  void measure_all() {
    const Schedule schedule = make_schedule(run_, record_.arm_ended);
    const measure::Stopwatch watch;
    std::optional<Progress> progress;
    if (options_.shows_progress) {
      progress.emplace("rounds", std::int64_t{run_.stopping.rounds} * points());
    }
    std::vector<Sample> samples;  // of the round under way
    RoundLog log;
    std::optional<Error> clock_error;
    int visits = 0;
    measure::InterleaveHooks hooks;
    hooks.before_round = [&](int round) -> Status {
      samples.clear();
      log = {round, watch.elapsed_us() * 1e-6, 0, 0, load_average()};
      const auto ghz = executor_.clock_ghz();
      if (!ghz.ok()) return ghz.error();
      log.clock_ghz_before = *ghz;
      return {};
    };
    hooks.measure = [&](const measure::Visit& visit) -> Expected<double> {
      if (is_interrupted()) return environment_error("interrupted");
      const int slot = schedule.slots[index(visit.arm)];
      const std::size_t batches = run_.points[index(visit.point)].batches.size();
      auto us =
          executor_.measure(arm_of_slot(slot), visit.point, batch_of_round(log.round, batches));
      if (!us.ok()) return us.error();
      Sample sample{log.round, visit.point, slot, visit.mirrored, std::move(*us)};
      const double step_us = experiment::step_us(run_, sample);
      samples.push_back(std::move(sample));
      if (progress && ++visits % (2 * schedule.order.arms) == 0) progress->advance();
      return step_us;
    };
    hooks.after_round = [&](int, const measure::RoundTable&) {
      const auto ghz = executor_.clock_ghz();
      if (!ghz.ok()) {
        clock_error = ghz.error();
        return false;
      }
      log.clock_ghz_after = *ghz;
      record_.rounds.push_back(log);
      for (Sample& s : samples) record_.samples.push_back(std::move(s));
      record_.rounds_s = watch.elapsed_us() * 1e-6;
      return !may_stop(run_, record_) && !is_interrupted();
    };
    const measure::InterleaveResult result = measure::measure_interleaved(schedule.order, hooks);
    finish(result, clock_error);
  }

  void finish(const measure::InterleaveResult& result, const std::optional<Error>& clock_error) {
    const std::string done = "after " + std::to_string(record_.rounds.size()) + " of " +
                             std::to_string(run_.stopping.rounds) + " rounds";
    if (result.reason != measure::StopReason::all_rounds && is_interrupted()) {
      end(RunEnd::interrupted, done);
    } else if (clock_error || result.reason == measure::StopReason::error) {
      end(RunEnd::error, (clock_error ? clock_error : result.error)->message + " (" + done + ")");
    } else {
      end(result.reason == measure::StopReason::caller ? RunEnd::decided : RunEnd::all_rounds,
          done);
    }
  }

  const RunSpec& run_;
  ArmExecutor& executor_;
  RunnerOptions options_;
  RunRecord record_;
};

std::string describe_launches(const RunSpec& run, ArmExecutor& executor) {
  TextTable table({"arm", "stream", "C", "variant", "mode", "chunk_rows", "block_heads",
                   "tile_rows", "prefetch", "splits", "items"});
  for (int arm = 0; arm < static_cast<int>(run.arms.size()); ++arm) {
    for (const PointSpec& p : {run.points.front(), run.points.back()}) {
      const auto echoes = executor.echo(arm, p.concurrency);
      if (!echoes.ok()) continue;
      for (const Echo& e : *echoes) {
        table.add_row({run.arms[static_cast<std::size_t>(arm)].name, e.stream,
                       std::to_string(e.concurrency), e.variant, e.is_exact ? "exact" : "free",
                       std::to_string(e.chunk_rows), std::to_string(e.block_heads),
                       std::to_string(e.tile_rows), std::to_string(e.prefetch),
                       std::to_string(e.splits), std::to_string(e.ctas)});
      }
    }
  }
  return table.str();
}

}  // namespace

RunCost estimate_cost(const RunSpec& run, const ArmExecutor& executor) {
  std::vector<double> sample_us;
  for (int p = 0; p < static_cast<int>(run.points.size()); ++p) {
    sample_us.push_back(executor.sample_us(p));
  }
  return {executor.gates_estimate_s(), rounds_cost_s(run, make_schedule(run), sample_us)};
}

Expected<RunRecord> run_experiment(const RunSpec& run, ArmExecutor& executor,
                                   const RunnerOptions& options) {
  Runner runner(run, executor, options);
  if (Status status = runner.read_back(); !status.ok()) return status.error();
  return runner.execute();
}

Expected<std::string> describe_run(const RunSpec& run, ArmExecutor& executor) {
  Runner runner(run, executor, {});
  if (Status status = runner.read_back(); !status.ok()) return status.error();
  const Schedule schedule = make_schedule(run);
  const RunCost cost = estimate_cost(run, executor);
  const ExecutorInfo info = executor.info();
  std::string text = "backend " + info.backend + " (" + info.backend_reason + "), " + info.device +
                     "\n\n" + describe_launches(run, executor) + "\n";
  constexpr int k_rounds_shown = 3;
  for (int r = 0; r < std::min(k_rounds_shown, run.stopping.rounds); ++r) {
    text += describe_round(run, schedule, r) + "\n";
  }
  const int samples = run.stopping.rounds * 2 * schedule.order.arms * schedule.order.points;
  text += "... " + std::to_string(run.stopping.rounds) + " rounds" +
          (run.stopping.rule == StopRule::anytime ? " at most" : "") + ", " +
          std::to_string(samples) + " samples\n";
  text += "cost: gates about " + fixed(cost.gates_s, 0) + " s, rounds about " +
          fixed(cost.rounds_s, 0) + " s; started now it would end about " +
          utc_now(cost.gates_s + cost.rounds_s) + "\n";
  return text;
}

}  // namespace splitwave::experiment
