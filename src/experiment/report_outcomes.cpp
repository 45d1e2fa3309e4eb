// Intervals against expectations, in words.
#include "experiment/report_outcomes.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text_table.h"
#include "experiment/schedule.h"
#include "stats/step_model.h"

namespace splitwave::experiment {
namespace {

std::string signed_fixed(double p) {
  if (!std::isfinite(p)) return p > 0 ? "+inf" : "-inf";
  return (p >= 0 ? "+" : "") + fixed(p, 1);
}

// Null when the arm was not measured there.
const stats::Interval* interval_at(const RunSpec& run, const Verdict& verdict, int arm, int at) {
  if (at == k_at_mix) {
    for (const ArmVerdict& a : verdict.arms) {
      if (a.arm == arm && a.is_measured) return &a.score;
    }
    return nullptr;
  }
  for (const PointVerdict& v : verdict.points) {
    if (v.arm == arm && run.points[static_cast<std::size_t>(v.point)].concurrency == at) {
      return &v.ratio;
    }
  }
  return nullptr;
}

Outcome measured(const stats::Interval* interval) {
  if (interval == nullptr) return {"-", "not measured"};
  return {signed_fixed(percent_of(interval->estimate)) + " [" +
              signed_fixed(percent_of(interval->low)) + ", " +
              signed_fixed(percent_of(interval->high)) + "]",
          ""};
}

}  // namespace

std::string at_text(int at) { return at == k_at_mix ? "the mix" : "C" + std::to_string(at); }

Outcome projection_outcome(const RunSpec& run, const Verdict& verdict, const Projection& p) {
  const stats::Interval* interval = interval_at(run, verdict, p.arm, p.at);
  Outcome out = measured(interval);
  if (interval == nullptr) return out;
  const double low = percent_of(interval->low);
  const double high = percent_of(interval->high);
  if (low > p.high_percent) {
    out.word = "above the envelope";
  } else if (high < p.low_percent) {
    out.word = "below the envelope";
  } else if (low >= p.low_percent && high <= p.high_percent) {
    out.word = "inside";
  } else {
    out.word = "overlaps an end";
  }
  return out;
}

Outcome falsification_outcome(const RunSpec& run, const Verdict& verdict, const Falsification& f) {
  const stats::Interval* interval = interval_at(run, verdict, f.arm, f.at);
  Outcome out = measured(interval);
  if (interval == nullptr) return out;
  const double low = percent_of(interval->low) - f.bound_percent;
  const double high = percent_of(interval->high) - f.bound_percent;
  const bool is_refuted = f.is_above ? low > 0 : high < 0;
  const bool has_survived = f.is_above ? high <= 0 : low >= 0;
  out.word = is_refuted ? "refuted" : has_survived ? "survived" : "open";
  return out;
}

std::string why_rejected(const RunSpec& spec, const RunRecord& run, const Verdict& verdict,
                         const ArmVerdict& arm) {
  if (run.arm_ended[static_cast<std::size_t>(arm.arm)] != 0) return "failed a correctness gate";
  if (!arm.is_measured) return "not measured";
  std::string slower;
  std::string open;
  for (const PointVerdict& v : verdict.points) {
    if (v.arm != arm.arm) continue;
    const std::string c =
        "C" + std::to_string(spec.points[static_cast<std::size_t>(v.point)].concurrency);
    if (v.effect == stats::Effect::slower) slower += (slower.empty() ? "" : ", ") + c;
    if (!v.rules_out_regression) open += (open.empty() ? "" : ", ") + c;
  }
  const std::string score = signed_fixed(percent_of(arm.score.estimate)) + " % over the mix";
  if (!slower.empty()) return score + "; slower at " + slower;
  if (!open.empty()) return score + "; a regression is not ruled out at " + open;
  if (arm.score.low <= 0) return score + ": a tie, which keeps the incumbent";
  return score + ", and another arm has more, or no range is agreed on";
}

StepLine fit_arm(const ResultRecord& record, const Verdict& verdict, int arm) {
  const RunSpec& spec = record.sealed.run;
  const std::set<int> dropped(verdict.rounds_dropped.begin(), verdict.rounds_dropped.end());
  std::vector<stats::StepSample> samples;
  for (const Sample& s : record.runs.back().samples) {
    if (s.slot != slot_of_arm(arm) || dropped.count(s.round) != 0) continue;
    samples.push_back({"round " + std::to_string(s.round),
                       spec.points[static_cast<std::size_t>(s.point)].concurrency,
                       step_us(spec, s) * 1e-3});
  }
  stats::StepFitOptions options;
  options.seed = spec.analysis.seed;
  const auto fit = stats::fit_step_time(samples, options);
  StepLine line;
  if (!fit.ok()) return line;  // one concurrency: there is no line
  line.is_fitted = true;
  line.fixed_ms = fit->fixed_ms.estimate;
  line.fixed_low_ms = fit->fixed_ms.low;
  line.fixed_high_ms = fit->fixed_ms.high;
  line.marginal_ms = fit->marginal_ms.estimate;
  line.marginal_low_ms = fit->marginal_ms.low;
  line.marginal_high_ms = fit->marginal_ms.high;
  line.r2 = fit->r2;
  return line;
}

std::string step_fit_text(const ResultRecord& record, const Verdict& verdict) {
  const StepLine line = fit_arm(record, verdict, 0);
  if (!line.is_fitted) return {};
  return "\nThe incumbent's step time is " + fixed(line.fixed_ms, 3) + " ms [" +
         fixed(line.fixed_low_ms, 3) + ", " + fixed(line.fixed_high_ms, 3) + "] + " +
         fixed(line.marginal_ms, 3) + " ms [" + fixed(line.marginal_low_ms, 3) + ", " +
         fixed(line.marginal_high_ms, 3) + "] x C (weighted R2 " + fixed(line.r2, 4) +
         "); what the line leaves over shows wave steps and the batches' own lengths.\n";
}

}  // namespace splitwave::experiment
