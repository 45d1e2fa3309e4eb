// Every arm is compared with slot 0, the A/A pair (slot 1) included: all pairs have one structure,
// and what the A/A pair shows is what the method itself adds.
#include "experiment/verdict.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/check.h"
#include "experiment/schedule.h"
#include "stats/multiple.h"
#include "stats/quantiles.h"
#include "stats/sequential.h"

namespace splitwave::experiment {
namespace {

// Step time of each slot at each point by round: the mean of its two visits. Complete, kept rounds
// only, so every series of a run has the same length.
class StepTable {
 public:
  StepTable(const RunSpec& run, const RunRecord& record, const std::vector<int>& dropped) {
    const std::set<int> out(dropped.begin(), dropped.end());
    for (const RoundLog& r : record.rounds) {
      if (out.count(r.round) != 0) continue;
      column_[r.round] = static_cast<int>(clock_ghz_.size());
      clock_ghz_.push_back(0.5 * (r.clock_ghz_before + r.clock_ghz_after));
    }
    for (const Sample& s : record.samples) {
      const auto column = column_.find(s.round);
      if (column == column_.end()) continue;
      auto& series = series_[{s.slot, s.point}];
      series.resize(clock_ghz_.size(), 0.0);
      series[static_cast<std::size_t>(column->second)] += 0.5 * step_us(run, s);
    }
  }

  [[nodiscard]] int rounds() const { return static_cast<int>(clock_ghz_.size()); }
  [[nodiscard]] bool has(int slot, int point) const { return series_.count({slot, point}) != 0; }
  [[nodiscard]] const std::vector<double>& at(int slot, int point) const {
    return series_.at({slot, point});
  }
  [[nodiscard]] const std::vector<double>& clock_ghz() const { return clock_ghz_; }

 private:
  std::map<int, int> column_;  // round -> index
  std::vector<double> clock_ghz_;
  std::map<std::pair<int, int>, std::vector<double>> series_;
};

bool is_anytime(const RunSpec& run) { return run.stopping.rule == StopRule::anytime; }

stats::BootstrapOptions bootstrap_options(const RunSpec& run, double level, int tests) {
  stats::BootstrapOptions options;
  options.location = run.analysis.trimmed ? stats::Location::trimmed_mean : stats::Location::mean;
  options.level = level;
  options.resamples =
      std::max(run.analysis.resamples, stats::resamples_for(run.stopping.alpha, tests));
  options.seed = run.analysis.seed;
  return options;
}

stats::SequentialMean sequential(const std::vector<double>& ratios, double alpha) {
  stats::SequentialMean test({.alpha = alpha});
  for (const double r : ratios) test.add(r);
  return test;
}

// One pair at one point; tests: how many verdicts share the error rate.
PointVerdict judge_pair(const RunSpec& run, const StepTable& table, int slot, int point,
                        int tests) {
  const std::vector<double>& base = table.at(0, point);
  const std::vector<double>& mine = table.at(slot, point);
  const std::vector<double> ratios = stats::paired_log_ratios(base, mine);
  const double alpha = run.stopping.alpha;
  PointVerdict v;
  v.arm = arm_of_slot(slot);
  v.point = point;
  v.incumbent_us = stats::median(base);
  v.arm_us = stats::median(mine);
  v.arm_us_low = stats::quantile(mine, 0.25);
  v.arm_us_high = stats::quantile(mine, 0.75);
  std::vector<double> cycles;
  for (std::size_t i = 0; i < mine.size(); ++i) cycles.push_back(mine[i] * table.clock_ghz()[i]);
  v.arm_kilocycles = stats::median(cycles);
  const double all = stats::simultaneous_level(1 - alpha, tests);
  if (is_anytime(run)) {
    const stats::SequentialMean alone = sequential(ratios, alpha);
    v.ratio = alone.interval();
    v.p_value = alone.p_value();
    v.simultaneous = sequential(ratios, 1 - all).interval();
  } else {
    const auto alone = stats::bootstrap_location(ratios, bootstrap_options(run, 1 - alpha, tests));
    v.ratio = alone.interval;
    v.p_value = alone.p_value;
    v.simultaneous = stats::bootstrap_location(ratios, bootstrap_options(run, all, tests)).interval;
  }
  v.rules_out_regression = stats::rules_out_regression(v.simultaneous, run.analysis.minimum_effect);
  return v;
}

// SAME needs the simultaneous interval (a claim of equivalence must hold at all points together);
// FASTER and SLOWER need Holm's adjusted p.
stats::Effect effect_of(const RunSpec& run, const PointVerdict& v) {
  const double margin = run.analysis.minimum_effect;
  if (stats::judge_effect(v.simultaneous, 1, run.stopping.alpha, margin) == stats::Effect::same) {
    return stats::Effect::same;
  }
  const stats::Effect effect =
      stats::judge_effect(v.ratio, v.adjusted_p, run.stopping.alpha, margin);
  return effect == stats::Effect::same ? stats::Effect::undecided : effect;
}

void adjust_and_judge(const RunSpec& run, std::vector<PointVerdict>& verdicts) {
  std::vector<double> p_values;
  for (const PointVerdict& v : verdicts) p_values.push_back(v.p_value);
  const std::vector<double> adjusted = stats::holm_adjust(p_values);
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    verdicts[i].adjusted_p = adjusted[i];
    verdicts[i].effect = effect_of(run, verdicts[i]);
  }
}

bool is_measured(const RunSpec& run, const StepTable& table, int arm) {
  for (int p = 0; p < static_cast<int>(run.points.size()); ++p) {
    if (!table.has(slot_of_arm(arm), p)) return false;
  }
  return true;
}

bool is_same_launch(const RunRecord& record, int arm, int concurrency) {
  for (const Prediction& p : record.predictions) {
    const auto i = static_cast<std::size_t>(concurrency - 1);
    if (p.arm == arm) return i < p.same_as_incumbent.size() && p.same_as_incumbent[i] != 0;
  }
  return false;
}

// The A/A pair, the points of every measured arm, the noise notes.
void judge_points(const RunSpec& run, const RunRecord& record, const StepTable& table,
                  Verdict& out) {
  const int points = static_cast<int>(run.points.size());
  for (int p = 0; p < points; ++p) out.same.push_back(judge_pair(run, table, 1, p, points));
  adjust_and_judge(run, out.same);
  for (const PointVerdict& v : out.same) {
    out.noise_floor =
        std::max(out.noise_floor, 0.5 * (std::exp(v.ratio.high) - std::exp(v.ratio.low)));
    out.is_noisy =
        out.is_noisy || v.effect == stats::Effect::faster || v.effect == stats::Effect::slower;
  }
  int measured = 0;
  for (const ArmVerdict& arm : out.arms) measured += arm.is_measured ? 1 : 0;
  for (const ArmVerdict& arm : out.arms) {
    if (!arm.is_measured) continue;
    for (int p = 0; p < points; ++p) {
      out.points.push_back(judge_pair(run, table, slot_of_arm(arm.arm), p, measured * points));
    }
  }
  if (!out.points.empty()) adjust_and_judge(run, out.points);
  for (PointVerdict& v : out.points) {
    const auto p = static_cast<std::size_t>(v.point);
    v.is_same_launch = is_same_launch(record, v.arm, run.points[p].concurrency);
    const stats::Effect noise = out.same[p].effect;
    if (noise != stats::Effect::faster && noise != stats::Effect::slower) continue;
    v.effect = stats::Effect::undecided;
    v.note = "the A/A pair differs here: the machine was not still";
  }
}

void score_arms(const RunSpec& run, const StepTable& table, Verdict& out) {
  for (ArmVerdict& arm : out.arms) {
    if (!arm.is_measured) continue;
    std::vector<std::vector<double>> ratios;
    for (int p = 0; p < static_cast<int>(run.points.size()); ++p) {
      ratios.push_back(stats::paired_log_ratios(table.at(0, p), table.at(slot_of_arm(arm.arm), p)));
    }
    if (is_anytime(run)) {
      std::vector<double> score(ratios[0].size(), 0.0);
      for (std::size_t p = 0; p < ratios.size(); ++p) {
        for (std::size_t r = 0; r < score.size(); ++r) {
          score[r] += run.points[p].weight * ratios[p][r];
        }
      }
      arm.score = sequential(score, run.stopping.alpha).interval();
    } else {
      std::vector<stats::MixPoint> mix;
      for (std::size_t p = 0; p < ratios.size(); ++p) {
        mix.push_back({run.points[p].weight, ratios[p]});
      }
      arm.score = stats::mix_score(mix, bootstrap_options(run, 1 - run.stopping.alpha, 1)).interval;
    }
    arm.no_regression = std::all_of(out.points.begin(), out.points.end(), [&](const auto& v) {
      return v.arm != arm.arm || v.rules_out_regression;
    });
  }
}

void find_drift(const RunSpec& run, const RunRecord& record, const StepTable& table, Verdict& out) {
  std::vector<double> clocks;
  for (const RoundLog& r : record.rounds) {
    clocks.push_back(0.5 * (r.clock_ghz_before + r.clock_ghz_after));
  }
  out.clock_trend = stats::trend_over_rounds(clocks);
  std::vector<double> level(static_cast<std::size_t>(table.rounds()), 0.0);
  for (int p = 0; p < static_cast<int>(run.points.size()); ++p) {
    for (std::size_t r = 0; r < level.size(); ++r) level[r] += std::log(table.at(0, p)[r]);
  }
  // Back to a mean time, so that the trend's share of the total reads as a change of speed.
  for (double& l : level) l = std::exp(l / static_cast<double>(run.points.size()));
  out.time_trend = stats::trend_over_rounds(level);
  const stats::DriftLimits limits;
  out.has_drifted =
      stats::has_drifted(out.clock_trend, limits) || stats::has_drifted(out.time_trend, limits);
}

}  // namespace

double step_us(const RunSpec& run, const Sample& sample) {
  SPLITWAVE_CHECK(sample.stream_us.size() == run.streams.size(), "one time a stream");
  double sum = 0;
  for (std::size_t s = 0; s < run.streams.size(); ++s) {
    sum += run.streams[s].layers * sample.stream_us[s];
  }
  return sum;
}

double percent_of(double log_ratio) { return 100 * std::expm1(log_ratio); }

Verdict analyse(const RunSpec& run, const RunRecord& record) {
  Verdict out;
  std::vector<double> clocks;
  for (const RoundLog& r : record.rounds) {
    clocks.push_back(0.5 * (r.clock_ghz_before + r.clock_ghz_after));
  }
  if (!clocks.empty()) out.clock = stats::clock_band(clocks, run.analysis.clock_band);
  for (const int i : out.clock.outside) {
    out.rounds_dropped.push_back(record.rounds[static_cast<std::size_t>(i)].round);
  }
  const StepTable table(run, record, out.rounds_dropped);
  out.rounds_used = table.rounds();
  for (int arm = 1; arm < static_cast<int>(run.arms.size()); ++arm) {
    out.arms.push_back({arm, out.rounds_used > 0 && is_measured(run, table, arm), {}, false});
  }
  if (out.rounds_used == 0) return out;
  judge_points(run, record, table, out);
  score_arms(run, table, out);
  find_drift(run, record, table, out);
  return out;
}

bool may_stop(const RunSpec& run, const RunRecord& record) {
  if (!is_anytime(run)) return false;
  if (static_cast<int>(record.rounds.size()) < run.stopping.rounds_min) return false;
  const Verdict verdict = analyse(run, record);
  return !verdict.points.empty() &&
         std::none_of(verdict.points.begin(), verdict.points.end(),
                      [](const PointVerdict& v) { return v.effect == stats::Effect::undecided; });
}

}  // namespace splitwave::experiment
