// splitwave fit: step time = fixed + marginal x concurrency, with intervals, from measured steps.
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>

#include "base/json_writer.h"
#include "base/text_table.h"
#include "command.h"
#include "fit_plot.h"
#include "load/step_samples.h"
#include "stats/step_model.h"

namespace splitwave::app {
namespace {

struct Arguments {
  std::string file;
  std::string plot;
  int rows_per_wave = 0;
  stats::StepFitOptions options;
};

void write_interval(JsonWriter& json, const char* name, const stats::Interval& interval) {
  json.key(name).begin_array().value(interval.low).value(interval.high).end_array();
}

void write_term(JsonWriter& json, const stats::OptionalTerm& term) {
  json.begin_object();
  json.field("name", term.name).field("kept", term.kept);
  json.field("coefficient_ms", term.coefficient_ms);
  json.key("rows_per_wave");
  term.rows_per_wave ? json.value(*term.rows_per_wave) : json.null();
  json.field("line_error_percent", 100 * term.line_error);
  json.field("term_error_percent", 100 * term.term_error);
  json.field("fixed_ms", term.fixed_ms).field("marginal_ms", term.marginal_ms);
  json.field("reason", term.reason);
  json.end_object();
}

void print_json(const stats::StepFit& fit, const Arguments& arguments) {
  JsonWriter json;
  json.begin_object();
  json.field("file", arguments.file);
  json.field("fixed_ms", fit.fixed_ms.estimate).field("marginal_ms", fit.marginal_ms.estimate);
  json.key("intervals").begin_object();
  json.field("level", fit.level).field("sessions", fit.sessions);
  json.field("method", "bootstrap over sessions, expanded percentile");
  write_interval(json, "fixed_ms", fit.fixed_ms);
  write_interval(json, "marginal_ms", fit.marginal_ms);
  json.end_object();
  json.field("r2", fit.r2);
  json.key("points").begin_array();
  for (const stats::StepPoint& point : fit.points) {
    json.begin_object();
    json.field("concurrency", point.concurrency).field("samples", point.samples);
    json.field("sessions", point.sessions).field("step_ms", point.step_ms);
    json.field("fitted_ms", point.fitted_ms).field("residual_ms", point.residual_ms);
    json.field("residual_percent", 100 * point.residual_share);
    json.end_object();
  }
  json.end_array();
  json.key("terms").begin_array();
  for (const stats::OptionalTerm& term : fit.terms) write_term(json, term);
  json.end_array();
  json.key("inconsistencies").begin_array();
  for (const std::string& text : fit.inconsistencies) json.value(text);
  json.end_array();
  json.key("plot");
  arguments.plot.empty() ? json.null() : json.value(arguments.plot);
  json.end_object();
  std::fputs(json.str().c_str(), stdout);
}

std::string bounds(const stats::Interval& interval, int decimals) {
  if (!std::isfinite(interval.low)) return "no interval: one session";
  return fixed(interval.low, decimals) + " .. " + fixed(interval.high, decimals);
}

void print_text(const stats::StepFit& fit, const Arguments& arguments) {
  std::printf("step_ms = %.4g + %.4g x concurrency   (R2 %.5f)\n", fit.fixed_ms.estimate,
              fit.marginal_ms.estimate, fit.r2);
  std::printf("fixed    %s ms\nmarginal %s ms per request   (%g %%, %d sessions)\n\n",
              bounds(fit.fixed_ms, 3).c_str(), bounds(fit.marginal_ms, 4).c_str(), 100 * fit.level,
              fit.sessions);
  TextTable table({"concurrency", "samples", "sessions", "step_ms", "fitted_ms", "residual_%"});
  for (const stats::StepPoint& point : fit.points) {
    table.add_row({std::to_string(point.concurrency), std::to_string(point.samples),
                   std::to_string(point.sessions), fixed(point.step_ms, 3),
                   fixed(point.fitted_ms, 3), fixed(100 * point.residual_share, 2)});
  }
  std::fputs(table.str().c_str(), stdout);
  std::printf("\n");
  for (const stats::OptionalTerm& term : fit.terms) {
    std::printf("term %s: %s; %s\n", term.name.c_str(), term.kept ? "kept" : "not kept",
                term.reason.c_str());
  }
  for (const std::string& text : fit.inconsistencies) std::printf("note: %s\n", text.c_str());
  if (!arguments.plot.empty()) std::printf("plot: %s\n", arguments.plot.c_str());
}

void run(CommandContext& context, const CLI::App& command, Arguments& arguments) {
  if (arguments.rows_per_wave > 0) arguments.options.rows_per_wave = arguments.rows_per_wave;
  const auto samples = load::read_step_samples(arguments.file);
  if (!samples) return fail(context, command, samples.error());
  const auto fit = stats::fit_step_time(*samples, arguments.options);
  if (!fit) {
    return fail(context, command, {fit.error().kind, arguments.file + ": " + fit.error().message});
  }
  if (!arguments.plot.empty()) {
    const Status drawn = draw_svg(fit_plot_script(*fit), arguments.plot);
    if (!drawn) return fail(context, command, drawn.error());
  }
  context.json ? print_json(*fit, arguments) : print_text(*fit, arguments);
}

}  // namespace

void add_fit(CLI::App& root, CommandContext& context) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      add_command(root, context, "fit", "fit step time = fixed + marginal x concurrency",
                  "splitwave fit steps.csv --plot residuals.svg --json");
  command
      ->add_option("file", arguments->file,
                   "a CSV with session,concurrency,step_ms, or the JSON of `splitwave load`")
      ->required();
  command->add_option("--plot", arguments->plot, "write a plot of line and residuals (SVG)");
  command->add_option("--level", arguments->options.level, "of the intervals")
      ->check(CLI::Range(0.5, 0.999))
      ->capture_default_str();
  command->add_option("--resamples", arguments->options.resamples, "bootstrap draws of sessions")
      ->check(CLI::Range(100, 1'000'000))
      ->capture_default_str();
  command->add_option("--seed", arguments->options.seed, "of the bootstrap")->capture_default_str();
  command
      ->add_option("--rows-per-wave", arguments->rows_per_wave,
                   "requests that fill one wave, if known; searched otherwise")
      ->check(CLI::Range(1, 100'000));
  command->callback([&context, command, arguments] { run(context, *command, *arguments); });
}

}  // namespace splitwave::app
