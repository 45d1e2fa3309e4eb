// The rules, in the order in which EXPERIMENTS' protocol states them.
#include "experiment/decision.h"

#include <algorithm>
#include <cmath>

#include "base/text_table.h"

namespace splitwave::experiment {
namespace {

using stats::Effect;

const PointVerdict* find_point(const Verdict& verdict, int arm, std::size_t point) {
  for (const PointVerdict& v : verdict.points) {
    if (v.arm == arm && v.point == static_cast<int>(point)) return &v;
  }
  return nullptr;
}

// The model's word on an unmeasured concurrency: no predicted loss beyond the minimum effect.
bool model_agrees(const RunSpec& run, const RunRecord& record, int arm, int concurrency) {
  const Prediction* mine = nullptr;
  const Prediction* base = nullptr;
  for (const Prediction& p : record.predictions) {
    if (p.arm == arm) mine = &p;
    if (p.arm == 0) base = &p;
  }
  const auto i = static_cast<std::size_t>(concurrency - 1);
  if (mine == nullptr || base == nullptr || i >= mine->step_us.size() ||
      i >= base->step_us.size()) {
    return false;
  }
  if (mine->same_as_incumbent[i] != 0) return true;
  return mine->step_us[i] > 0 &&
         mine->step_us[i] <= base->step_us[i] * (1 + run.analysis.minimum_effect);
}

bool is_harmless(const PointVerdict& v) {
  return v.effect == Effect::faster || v.effect == Effect::same;
}

// Which concurrencies from the least to the largest point the arm may have. at_points says whether
// a measured point is one of them.
template <class AtPoints>
std::vector<Range> offered_ranges(const RunSpec& run, const RunRecord& record,
                                  const Verdict& verdict, int arm, const AtPoints& at_points) {
  std::vector<Range> out;
  bool has_faster = false;
  const auto take = [&](int concurrency, bool is_offered, bool is_faster) {
    if (!is_offered) return;
    if (out.empty() || out.back().last + 1 != concurrency) {
      if (!out.empty() && !has_faster) out.pop_back();  // nothing gained there: the incumbent stays
      out.push_back({concurrency, concurrency});
      has_faster = false;
    }
    out.back().last = concurrency;
    has_faster = has_faster || is_faster;
  };
  for (std::size_t p = 0; p < run.points.size(); ++p) {
    const PointVerdict* here = find_point(verdict, arm, p);
    if (here == nullptr) return {};
    take(run.points[p].concurrency, at_points(*here), here->effect == Effect::faster);
    if (p + 1 == run.points.size()) break;
    const PointVerdict* next = find_point(verdict, arm, p + 1);
    if (next == nullptr) return {};
    const bool agree = at_points(*here) && at_points(*next) && is_harmless(*here) &&
                       is_harmless(*next) &&
                       (here->effect == Effect::faster || next->effect == Effect::faster);
    for (int c = run.points[p].concurrency + 1; c < run.points[p + 1].concurrency; ++c) {
      take(c, agree && model_agrees(run, record, arm, c), false);
    }
  }
  if (!out.empty() && !has_faster) out.pop_back();
  return out;
}

std::string percent(double log_ratio) {
  const double p = percent_of(log_ratio);
  return (p >= 0 ? "+" : "") + fixed(p, 1) + " %";
}

std::string score_text(const ArmVerdict& arm) {
  return percent(arm.score.estimate) + " over the load mix (" + percent(arm.score.low) + " to " +
         percent(arm.score.high) + ")";
}

std::string why_keep(const RunSpec& run, const Verdict& verdict) {
  const ArmVerdict* best = nullptr;
  for (const ArmVerdict& arm : verdict.arms) {
    if (!arm.is_measured || run.arms[static_cast<std::size_t>(arm.arm)].planted != Planted::none) {
      continue;
    }
    if (best == nullptr || arm.score.estimate > best->score.estimate) best = &arm;
  }
  if (best == nullptr) return "no arm passed its gates and was measured";
  const std::string name = run.arms[static_cast<std::size_t>(best->arm)].name;
  if (best->score.high < 0)
    return name + ", the best of the others, is slower: " + score_text(*best);
  if (best->score.low <= 0) {
    return "no arm beats the incumbent beyond its interval; the best is " + name + " with " +
           score_text(*best) + "; a tie keeps what is deployed";
  }
  std::string where;
  for (const PointVerdict& v : verdict.points) {
    if (v.arm != best->arm || v.rules_out_regression) continue;
    where += (where.empty() ? "C" : ", C") +
             std::to_string(run.points[static_cast<std::size_t>(v.point)].concurrency);
  }
  return name + " has " + score_text(*best) + ", but a regression of " +
         fixed(100 * run.analysis.minimum_effect, 1) + " % cannot be ruled out at " + where;
}

}  // namespace

const char* name_of(DecisionKind kind) {
  constexpr const char* k_names[] = {"keep", "adopt", "adopt_ranges"};
  return k_names[static_cast<int>(kind)];
}

std::string to_string(const std::vector<Range>& ranges) {
  std::string text;
  for (const Range& r : ranges) {
    text += (text.empty() ? "" : ", ") + std::to_string(r.first);
    if (r.last != r.first) text += ".." + std::to_string(r.last);
  }
  return text;
}

Decision decide(const RunSpec& run, const RunRecord& record, const Verdict& verdict) {
  Decision decision;
  if (!record.is_complete()) {
    decision.reason = std::string("the run is not complete (") + name_of(record.end) +
                      (record.end_detail.empty() ? "" : ": " + record.end_detail) +
                      "): no decision, the incumbent stays";
    return decision;
  }
  const ArmVerdict* winner = nullptr;
  for (const ArmVerdict& arm : verdict.arms) {
    if (run.arms[static_cast<std::size_t>(arm.arm)].planted != Planted::none) continue;
    if (!arm.is_measured || !(arm.score.low > 0) || !arm.no_regression) continue;
    if (winner == nullptr || arm.score.estimate > winner->score.estimate) winner = &arm;
  }
  const auto all_points = [](const PointVerdict& v) { return v.rules_out_regression; };
  const auto faster_points = [](const PointVerdict& v) { return v.effect == Effect::faster; };
  if (winner != nullptr) {
    decision.ranges = offered_ranges(run, record, verdict, winner->arm, all_points);
  }
  if (winner == nullptr || decision.ranges.empty()) {
    decision.reason = why_keep(run, verdict);
    for (const ArmVerdict& arm : verdict.arms) {
      if (run.arms[static_cast<std::size_t>(arm.arm)].planted != Planted::none) continue;
      auto ranges = offered_ranges(run, record, verdict, arm.arm, faster_points);
      if (!ranges.empty()) decision.offers.push_back({arm.arm, std::move(ranges)});
    }
    return decision;
  }
  decision.arm = winner->arm;
  const Range whole{run.points.front().concurrency, run.points.back().concurrency};
  const bool is_everywhere = decision.ranges.size() == 1 && decision.ranges[0] == whole;
  decision.kind = is_everywhere ? DecisionKind::adopt : DecisionKind::adopt_ranges;
  decision.reason = run.arms[static_cast<std::size_t>(winner->arm)].name + " has " +
                    score_text(*winner) + " and no regression at any measured point" +
                    (is_everywhere ? ""
                                   : "; elsewhere nothing was measured that both neighbours "
                                     "and the model agree on");
  return decision;
}

}  // namespace splitwave::experiment
