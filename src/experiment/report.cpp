// The report, section by section. At most 60 lines of prose: tables and plots carry the rest.
#include "experiment/report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/files.h"
#include "base/text_table.h"
#include "experiment/report_outcomes.h"
#include "experiment/schedule.h"

namespace splitwave::experiment {
namespace {

std::string signed_percent(double p) {
  if (!std::isfinite(p)) return p > 0 ? "+inf" : "-inf";
  return (p >= 0 ? "+" : "") + fixed(p, 1);
}

const std::string& arm_name(const RunSpec& run, int arm) {
  return run.arms[static_cast<std::size_t>(arm)].name;
}

// A Markdown row; a pipe in a cell would end it.
std::string row(std::vector<std::string> cells) {
  std::string out = "|";
  for (std::string& cell : cells) {
    std::replace(cell.begin(), cell.end(), '|', '/');
    out += " " + cell + " |";
  }
  return out + "\n";
}

std::string header(const std::vector<std::string>& cells) {
  return row(cells) + row(std::vector<std::string>(cells.size(), "---"));
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string headline(const ResultRecord& record, const Decision& d) {
  const RunSpec& run = record.sealed.run;
  switch (d.kind) {
    case DecisionKind::adopt:
      return "adopt " + arm_name(run, d.arm);
    case DecisionKind::adopt_ranges:
      return "adopt " + arm_name(run, d.arm) + " at C" + to_string(d.ranges) + ", keep " +
             arm_name(run, 0) + " elsewhere";
    case DecisionKind::keep:
      break;
  }
  return "keep " + arm_name(run, 0);
}

std::string what_ran(const ResultRecord& record, const RunRecord& run, const Verdict& v) {
  const RunSpec& spec = record.sealed.run;
  const Echo* echo = run.echoes.empty() ? nullptr : &run.echoes.front();
  std::string out = "Run " + std::to_string(record.runs.size()) + ", " + run.started_utc + ", on " +
                    run.device + " (" + run.backend;
  if (echo != nullptr) out += ", " + echo->isa + ", class " + echo->numerics_class;
  out += "): " + std::to_string(run.rounds.size()) + " of " + std::to_string(run.rounds_planned) +
         " rounds, " + std::to_string(v.rounds_dropped.size()) +
         " dropped for their clock, gates " + fixed(run.gates_s, 0) + " s, rounds " +
         fixed(run.rounds_s, 0) + " s.";
  if (record.plan_state == PlanState::registered) {
    out += " The plan was committed before the run (commit " +
           record.sealed.identity.commit.substr(0, 10) + ", blob " +
           record.sealed.identity.blob.substr(0, 10) + ").";
  } else {
    out += " **Not pre-registered**: the plan lay in no git repository.";
  }
  const std::string trace = record.sealed.identity.trace;
  out += " Model " + spec.model + ", " + std::to_string(spec.heads) + " heads; batches " +
         (trace == "none" ? std::string("given in the plan") : "replayed from " + trace) + "; " +
         name_of(spec.locality) + ", " + name_of(spec.cache) + " cache, " +
         name_of(spec.execution) + ".";
  return out;
}

std::string quality(const Verdict& v) {
  std::string out =
      "The incumbent ran twice in every round: its difference from itself (A/A) has a "
      "half-width of at most " +
      fixed(100 * v.noise_floor, 1) + " %, the noise floor.";
  if (v.is_noisy) out += " **The A/A pair differs at some point: no verdict stands there.**";
  if (v.has_drifted) {
    out += " The machine drifted during the run (clock " +
           signed_percent(100 * v.clock_trend.total_share) + " %, time " +
           signed_percent(100 * v.time_trend.total_share) +
           " %); arms were interleaved in both directions, so the comparison holds.";
  }
  return out;
}

std::string result_table(const ResultRecord& record, const Verdict& v) {
  const RunSpec& run = record.sealed.run;
  std::vector<std::string> head = {"C", "weight", run.arms[0].name + " us"};
  std::vector<int> arms;
  for (const ArmVerdict& arm : v.arms) {
    if (!arm.is_measured) continue;
    arms.push_back(arm.arm);
    head.push_back(arm_name(run, arm.arm));
  }
  head.emplace_back("A/A");
  std::string out = header(head);
  for (std::size_t p = 0; p < run.points.size(); ++p) {
    std::vector<std::string> cells = {std::to_string(run.points[p].concurrency),
                                      fixed(run.points[p].weight, 3)};
    const PointVerdict& same = v.same[p];
    cells.push_back(fixed(same.incumbent_us, 0));
    for (const int arm : arms) {
      const auto found = std::find_if(v.points.begin(), v.points.end(), [&](const auto& x) {
        return x.arm == arm && x.point == static_cast<int>(p);
      });
      cells.push_back(signed_percent(percent_of(found->ratio.estimate)) + " % [" +
                      signed_percent(percent_of(found->ratio.low)) + ", " +
                      signed_percent(percent_of(found->ratio.high)) + "] **" +
                      stats::effect_name(found->effect) + "**" +
                      (found->is_same_launch ? " (same launch)" : ""));
    }
    cells.push_back("[" + signed_percent(percent_of(same.ratio.low)) + ", " +
                    signed_percent(percent_of(same.ratio.high)) + "]");
    out += row(cells);
  }
  std::vector<std::string> mix = {"mix", "1", ""};
  for (const ArmVerdict& arm : v.arms) {
    if (!arm.is_measured) continue;
    mix.push_back(signed_percent(percent_of(arm.score.estimate)) + " % [" +
                  signed_percent(percent_of(arm.score.low)) + ", " +
                  signed_percent(percent_of(arm.score.high)) + "]" +
                  (arm.no_regression ? ", no regression" : ", regression not ruled out"));
  }
  mix.emplace_back("");
  return out + row(mix);
}

std::string gates_section(const ResultRecord& record, const RunRecord& run) {
  const RunSpec& spec = record.sealed.run;
  std::map<std::pair<int, std::string>, std::pair<int, int>> count;  // (arm, gate): passed, all
  std::map<std::pair<int, std::string>, double> worst;
  for (const GateResult& g : run.gates) {
    auto& [passed, all] = count[{g.arm, g.gate}];
    passed += g.passed ? 1 : 0;
    ++all;
    worst[{g.arm, g.gate}] = std::max(worst[{g.arm, g.gate}], g.worst);
  }
  std::string out = header({"arm", "gate", "passed", "worst"});
  for (const auto& [key, counted] : count) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", worst[key]);
    out += row({arm_name(spec, key.first), key.second,
                std::to_string(counted.first) + " of " + std::to_string(counted.second), text});
  }
  for (const GateResult& g : run.gates) {
    if (g.passed) continue;
    out += "\n**" + arm_name(spec, g.arm) + " failed " + g.gate + "** at C" +
           std::to_string(spec.points[static_cast<std::size_t>(g.point)].concurrency) +
           ", stream " + g.stream + ": " + one_line(g.detail) + ". It was not timed.\n";
    break;  // the first; result.json holds all
  }
  return out;
}

std::string projected_section(const ResultRecord& record, const Verdict& v) {
  std::string out = header({"arm", "at", "projected %", "measured %", "outcome", "derivation"});
  for (const Projection& p : record.manifest.projections) {
    const Outcome o = projection_outcome(record.sealed.run, v, p);
    out += row({arm_name(record.sealed.run, p.arm), at_text(p.at),
                signed_percent(p.low_percent) + " / " + signed_percent(p.central_percent) + " / " +
                    signed_percent(p.high_percent),
                o.measured, o.word, one_line(p.derivation)});
  }
  const Falsification& f = record.manifest.falsified_by;
  const Outcome o = falsification_outcome(record.sealed.run, v, f);
  return out + "\nWhat was claimed: " + one_line(f.text) + " Falsified when " +
         arm_name(record.sealed.run, f.arm) + " lies " + (f.is_above ? "above " : "below ") +
         signed_percent(f.bound_percent) + " % at " + at_text(f.at) + "; measured " + o.measured +
         " %: **" + o.word + "**.\n";
}

std::string rejected_section(const ResultRecord& record, const RunRecord& run, const Derived& d) {
  const RunSpec& spec = record.sealed.run;
  std::string out;
  for (const ArmVerdict& arm : d.verdict.arms) {
    if (d.decision.kind != DecisionKind::keep && d.decision.arm == arm.arm) continue;
    const ArmSpec& a = spec.arms[static_cast<std::size_t>(arm.arm)];
    out += "- " + a.name + " (`" + (a.plan.empty() ? "planner's choice" : a.plan) +
           "`): " + why_rejected(spec, run, d.verdict, arm) + "\n";
  }
  return out.empty() ? "- none\n" : out;
}

std::string unknown_section(const ResultRecord& record, const RunRecord& run, const Derived& d) {
  const RunSpec& spec = record.sealed.run;
  std::string out;
  std::string undecided;
  for (const PointVerdict& v : d.verdict.points) {
    if (v.effect != stats::Effect::undecided) continue;
    undecided += (undecided.empty() ? "" : ", ") + arm_name(spec, v.arm) + " at C" +
                 std::to_string(spec.points[static_cast<std::size_t>(v.point)].concurrency);
  }
  if (!undecided.empty())
    out += "- Undecided after " + std::to_string(d.verdict.rounds_used) + " rounds: " + undecided +
           ".\n";
  for (const RangeOffer& offer : d.decision.offers) {
    out += "- " + arm_name(spec, offer.arm) + " is faster at C" + to_string(offer.ranges) +
           ": a per-range override is possible there, and is not part of this decision.\n";
  }
  out +=
      "- Other machines, traces and localities than those named above, and concurrencies beyond C" +
      std::to_string(spec.rows_max()) + ".\n";
  out += "- The rival explanation: " + one_line(record.manifest.rival) + "\n";
  if (!run.is_complete()) {
    out += std::string("- **This run is not complete** (") + name_of(run.end) + ", " +
           one_line(run.end_detail) + "): what is shown is what the whole rounds so far give.\n";
  }
  return out;
}

std::string earlier_runs(const ResultRecord& record) {
  if (record.runs.size() < 2) return {};
  std::string out = "\n## Earlier runs\n\n";
  for (std::size_t i = 0; i + 1 < record.runs.size(); ++i) {
    const Derived d = derive(record, record.runs[i]);
    out += "- run " + std::to_string(i + 1) + ", " + record.runs[i].started_utc + ", " +
           record.runs[i].device + ": " + headline(record, d.decision) + ": " + d.decision.reason +
           "\n";
  }
  return out;
}

}  // namespace

std::string report_text(const ResultRecord& record, bool has_plots) {
  const RunRecord& run = record.runs.back();
  const Derived d = derive(record, run);
  const Manifest& m = record.manifest;
  const RunSpec& spec = record.sealed.run;
  std::string out = "# " + spec.slug + ": " + headline(record, d.decision) + "\n\n";
  out += "**Question.** " + one_line(m.question) + "\n\n";
  out += "**Verdict.** " + headline(record, d.decision) + ": " + d.decision.reason + ".\n\n";
  out += "**Why it should.** " + one_line(m.why) + "\n\n";
  out += what_ran(record, run, d.verdict) + "\n";
  if (d.verdict.rounds_used > 0) {
    out += quality(d.verdict) + "\n\n## Result\n\nThroughput against " + spec.arms[0].name +
           " at each concurrency C (requests decoded together), in percent, more is better, with "
           "the " +
           fixed(100 * (1 - spec.stopping.alpha), 0) +
           " % interval. The metric is the attention time of one decode step: every stream's time "
           "per call times its layers.\n\n";
    out += result_table(record, d.verdict);
    out += has_plots ? "\n![Throughput against concurrency](" + std::string(k_throughput_plot) +
                           ")\n\n![Step time with the fitted line and residuals](" +
                           std::string(k_step_time_plot) + ")\n"
                     : "\nNo plots: gnuplot was not there. `apt-get install gnuplot-nox`, then "
                       "`splitwave ab report` on this folder.\n";
    out += step_fit_text(record, d.verdict);
    out += "\n## Projected against measured\n\n" + projected_section(record, d.verdict);
  }
  out +=
      "\n## Gates\n\nEvery arm, point and stream before any timing; worst: differing elements, or "
      "the largest relative L2 of a row and head (limit 4e-3).\n\n" +
      gates_section(record, run);
  out += "\n## Rejected\n\n" + rejected_section(record, run, d);
  out += "\n## Still unknown\n\n" + unknown_section(record, run, d);
  out += earlier_runs(record);
  out +=
      "\n## Reading it\n\nFASTER and SLOWER: significant after Holm's correction over all points. "
      "SAME: the interval, held at all points together, lies within " +
      fixed(100 * spec.analysis.minimum_effect, 1) +
      " %, the smallest difference that matters here. UNDECIDED: neither. A winner must gain over "
      "the load mix and rule out a regression at every point; a tie keeps the incumbent.\n\n";
  out += "Roll back with: " + one_line(m.rollback) +
         "\n\nRepeat with: `splitwave ab run experiments/" + spec.slug +
         " --out DIR`; derive again from the raw samples with `splitwave ab report`.\n";
  return out;
}

Status write_record(const ResultRecord& record, const std::string& folder, Status& plots) {
  if (Status s = write_file(folder + "/" + k_result_file, to_json(record)); !s.ok()) return s;
  plots = write_plots(record, folder);
  return write_file(folder + "/" + k_report_file, report_text(record, plots.ok()));
}

std::string closing_text(const ResultRecord& record, const std::string& folder) {
  const RunRecord& run = record.runs.back();
  const Derived d = derive(record, run);
  const RunSpec& spec = record.sealed.run;
  std::string out;
  if (d.verdict.rounds_used > 0) {
    TextTable table({"arm", "C", "incumbent us", "arm us", "throughput", "interval", "verdict"});
    for (const PointVerdict& v : d.verdict.points) {
      table.add_row({arm_name(spec, v.arm),
                     std::to_string(spec.points[static_cast<std::size_t>(v.point)].concurrency),
                     fixed(v.incumbent_us, 0), fixed(v.arm_us, 0),
                     signed_percent(percent_of(v.ratio.estimate)) + "%",
                     signed_percent(percent_of(v.ratio.low)) + " to " +
                         signed_percent(percent_of(v.ratio.high)),
                     stats::effect_name(v.effect)});
    }
    out += table.str() + "\n";
  }
  int failed = 0;
  for (const GateResult& g : run.gates) failed += g.passed ? 0 : 1;
  out += "gates:   " + std::to_string(run.gates.size() - static_cast<std::size_t>(failed)) +
         " of " + std::to_string(run.gates.size()) + " passed before anything was timed\n";
  out +=
      "noise:   the incumbent against itself: +-" + fixed(100 * d.verdict.noise_floor, 1) + " %\n";
  out += "verdict: " + headline(record, d.decision) + "\n";
  out += "         " + d.decision.reason + "\n";
  out += "report:  " + folder + "/" + k_report_file + " (plots beside it: " + k_throughput_plot +
         ", " + k_step_time_plot + ")\n";
  return out;
}

}  // namespace splitwave::experiment
