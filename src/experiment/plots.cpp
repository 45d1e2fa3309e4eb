// The two plots of a report: data blocks and gnuplot commands, one series an arm.
#include <cmath>
#include <sstream>

#include "base/files.h"
#include "experiment/gnuplot.h"
#include "experiment/report.h"
#include "experiment/report_outcomes.h"

namespace splitwave::experiment {
namespace {

// Distinct in print and for most colour-blind readers (Okabe and Ito).
constexpr const char* k_colors[] = {"#000000", "#0072B2", "#D55E00", "#009E73",
                                    "#CC79A7", "#E69F00", "#56B4E9"};

const char* color_of(std::size_t series) { return k_colors[series % std::size(k_colors)]; }

struct Series {
  int arm = 0;
  std::string name;
  std::vector<const PointVerdict*> points;  // one a point; the incumbent's are its A/A partner's
};

std::vector<Series> series_of(const RunSpec& run, const Verdict& v) {
  std::vector<Series> all = {{0, run.arms[0].name + " (again: A/A)", {}}};
  for (const PointVerdict& p : v.same) all[0].points.push_back(&p);
  for (const ArmVerdict& arm : v.arms) {
    if (!arm.is_measured) continue;
    Series s{arm.arm, run.arms[static_cast<std::size_t>(arm.arm)].name, {}};
    for (const PointVerdict& p : v.points) {
      if (p.arm == arm.arm) s.points.push_back(&p);
    }
    all.push_back(std::move(s));
  }
  return all;
}

std::string prologue() {
  return "set terminal svg size 900,760 dynamic noenhanced font 'sans,14' background '#ffffff'\n"
         "set grid lc rgb '#dddddd'\nset key outside right top\nset multiplot layout 2,1\n"
         "set lmargin 11\nset rmargin 30\nset xlabel 'concurrency C (requests decoded together)'\n";
}

double finite_or(double value, double otherwise) {
  return std::isfinite(value) ? value : otherwise;
}

// Columns: C, tokens a second with its ends, change in percent with its ends.
void throughput_data(std::ostream& out, const RunSpec& run, const Series& s, std::size_t i) {
  out << "$s" << i << " << EOD\n";
  for (const PointVerdict* p : s.points) {
    const int c = run.points[static_cast<std::size_t>(p->point)].concurrency;
    const double base = c / p->incumbent_us * 1e6;
    const double low = finite_or(p->ratio.low, p->ratio.estimate);
    const double high = finite_or(p->ratio.high, p->ratio.estimate);
    out << c << ' ' << base * std::exp(p->ratio.estimate) << ' ' << base * std::exp(low) << ' '
        << base * std::exp(high) << ' ' << percent_of(p->ratio.estimate) << ' ' << percent_of(low)
        << ' ' << percent_of(high) << '\n';
  }
  out << "EOD\n";
}

void plot_series(std::ostream& out, const std::vector<Series>& all, const char* columns,
                 const char* more) {
  out << "plot ";
  for (std::size_t i = 0; i < all.size(); ++i) {
    out << (i == 0 ? "" : ", ") << "$s" << i << " using " << columns
        << " with yerrorlines lw 1.6 pt 7 ps 0.5 lc rgb '" << color_of(i) << "' title '"
        << all[i].name << "'";
  }
  out << more << '\n';
}

std::string throughput_script(const RunSpec& run, const Verdict& v) {
  const auto all = series_of(run, v);
  std::ostringstream out;
  out << prologue();
  for (std::size_t i = 0; i < all.size(); ++i) throughput_data(out, run, all[i], i);
  out << "set title 'Decode attention throughput'\nset ylabel 'tokens per second'\n"
      << "set yrange [0:*]\nset xrange [0:" << run.rows_max() * 1.05 << "]\n";
  plot_series(out, all, "1:2:3:4", "");
  const double band = 100 * run.analysis.minimum_effect;
  out << "set title 'Change of throughput against " << run.arms[0].name
      << "; grey: smaller differences do not matter'\nset ylabel 'percent'\nset yrange [*:*]\n"
      << "set object 1 rectangle from graph 0, first " << -band << " to graph 1, first " << band
      << " fc rgb '#eeeeee' fs solid noborder behind\n";
  plot_series(out, all, "1:5:6:7", ", 0 lw 1 lc rgb '#888888' notitle");
  return out.str();
}

std::string step_time_script(const ResultRecord& record, const Verdict& v) {
  const RunSpec& run = record.sealed.run;
  const auto all = series_of(run, v);
  std::ostringstream out;
  out << prologue();
  std::vector<StepLine> lines;
  for (std::size_t i = 0; i < all.size(); ++i) {
    lines.push_back(fit_arm(record, v, all[i].arm));
    const StepLine& line = lines.back();
    out << "$s" << i << " << EOD\n";
    for (const PointVerdict* p : all[i].points) {
      const int c = run.points[static_cast<std::size_t>(p->point)].concurrency;
      const double us = i == 0 ? p->incumbent_us : p->arm_us;
      const double fitted = line.fixed_ms + line.marginal_ms * c;
      out << c << ' ' << us * 1e-3 << ' '
          << (line.is_fitted && fitted > 0 ? 100 * (us * 1e-3 / fitted - 1) : 0) << '\n';
    }
    out << "EOD\n";
  }
  out << "set title 'Attention time of one decode step, with the line fixed + marginal x C'\n"
      << "set ylabel 'ms'\nset yrange [0:*]\nset xrange [0:" << run.rows_max() * 1.05 << "]\nplot ";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string name = i == 0 ? run.arms[0].name : all[i].name;
    out << (i == 0 ? "" : ", ") << "$s" << i << " using 1:2 with points pt 7 ps 0.6 lc rgb '"
        << color_of(i) << "' title '" << name << "'";
    if (!lines[i].is_fitted) continue;
    out << ", " << lines[i].fixed_ms << " + " << lines[i].marginal_ms << " * x lw 1 lc rgb '"
        << color_of(i) << "' notitle";
  }
  out << "\nset title 'What the line leaves over'\nset ylabel 'percent of the line'\n"
      << "set yrange [*:*]\nplot ";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string name = i == 0 ? run.arms[0].name : all[i].name;
    out << "$s" << i << " using 1:3 with linespoints lw 1.4 pt 7 ps 0.5 lc rgb '" << color_of(i)
        << "' title '" << name << "', ";
  }
  out << "0 lw 1 lc rgb '#888888' notitle\n";
  return out.str();
}

}  // namespace

Status write_plots(const ResultRecord& record, const std::string& folder) {
  const Derived derived = derive(record, record.runs.back());
  if (derived.verdict.rounds_used == 0) return environment_error("no round was measured: no plots");
  const auto throughput = run_gnuplot(throughput_script(record.sealed.run, derived.verdict));
  if (!throughput.ok()) return throughput.error();
  const auto step_time = run_gnuplot(step_time_script(record, derived.verdict));
  if (!step_time.ok()) return step_time.error();
  if (Status s = write_file(folder + "/" + k_throughput_plot, *throughput); !s.ok()) return s;
  return write_file(folder + "/" + k_step_time_plot, *step_time);
}

}  // namespace splitwave::experiment
