// splitwave load: requests on an OpenAI-compatible server, closed loop or from a trace.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/progress.h"
#include "command.h"
#include "experiment/trace.h"
#include "load/load_report.h"
#include "load/load_run.h"
#include "target_options.h"

namespace splitwave::app {
namespace {

struct Arguments {
  load::LoadOptions options;
  std::vector<int> concurrency = {1, 8, 16, 32, 48, 64, 80, 96};
  std::string trace;
  double trace_skip_s = 0;
  double rate_scale = 1;
  double length_scale = 1;
  double tolerance = 0.02;
  bool requires_monotonic = false;
};

int scaled(int tokens, double scale) {
  return std::max(1, static_cast<int>(std::lround(tokens * scale)));
}

// The trace's requests from trace_skip_s on, as far as the windows reach.
Expected<std::vector<load::Arrival>> arrivals_of(const Arguments& a) {
  const auto trace = experiment::read_trace(a.trace);
  if (!trace) return trace.error();
  std::vector<load::Arrival> arrivals;
  for (const experiment::TraceRequest& request : trace->requests) {
    const double at_s = (request.arrival_s - a.trace_skip_s) / a.rate_scale;
    if (at_s < 0 || at_s > a.options.warmup_s + a.options.window_s) continue;
    load::Arrival arrival;
    arrival.at_s = at_s;
    arrival.prompt_tokens = scaled(request.context_tokens, a.length_scale);
    arrival.output_tokens = scaled(request.generated_tokens, a.length_scale);
    arrival.prefix_blocks = request.prefix_blocks;
    arrivals.push_back(std::move(arrival));
  }
  return arrivals;
}

Expected<std::vector<load::LoadPoint>> measure(const Arguments& a) {
  std::vector<load::LoadPoint> points;
  if (!a.trace.empty()) {
    const auto arrivals = arrivals_of(a);
    if (!arrivals) return arrivals.error();
    auto point = load::run_open_loop(a.options, *arrivals);
    if (!point) return point.error();
    points.push_back(std::move(*point));
    return points;
  }
  Progress progress("load", static_cast<std::int64_t>(a.concurrency.size()));
  for (const int concurrency : a.concurrency) {
    auto point = load::run_closed_loop(a.options, concurrency);
    if (!point) return point.error();
    points.push_back(std::move(*point));
    progress.advance();
  }
  return points;
}

void run(CommandContext& context, const CLI::App& command, Arguments& a) {
  const auto target = load::resolve_target(a.options.target);
  if (!target) return fail(context, command, target.error());
  a.options.target = *target;
  const auto points = measure(a);
  if (!points) return fail(context, command, points.error());
  const auto violations = load::scaling_violations(*points, a.tolerance);
  const load::LoadReport report{&a.options, *points, violations, a.trace};
  const std::string text = context.json ? load::load_json(report) : load::load_table(report);
  std::fputs(text.c_str(), stdout);
  if (a.requires_monotonic && !violations.empty()) {
    fail(context, command, gate_error(violations.front()));
  }
}

}  // namespace

void add_load(CLI::App& root, CommandContext& context) {
  auto a = std::make_shared<Arguments>();
  CLI::App* command = add_command(
      root, context, "load", "measure an OpenAI-compatible server under load",
      "splitwave load --url http://127.0.0.1:8000 --concurrency 1,16,96 --window-s 20 --json");
  load::LoadOptions& o = a->options;
  add_target_options(*command, o.target);
  command
      ->add_option("--concurrency", a->concurrency, "closed loop: requests in flight, a point each")
      ->delimiter(',')
      ->check(CLI::Range(1, load::k_concurrency_in_flight_max));
  command->add_option("--prompt-tokens", o.prompt_tokens, "words of a prompt")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--output-tokens", o.output_tokens, "max_tokens of a request")
      ->check(CLI::Range(1, 1'000'000));
  command->add_flag("!--stop-at-eos", o.ignore_eos, "let requests end before max_tokens");
  command->add_option("--warmup-s", o.warmup_s, "seconds before the window")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--window-s", o.window_s, "seconds that count")->check(CLI::PositiveNumber);
  command->add_option("--sessions", o.sessions, "repetitions of a point")
      ->check(CLI::Range(1, 1000));
  command->add_option("--seed", o.seed, "of the prompts");
  command->add_option("--trace", a->trace,
                      "open loop: an Azure LLM 2023 .csv or a Mooncake .jsonl");
  command->add_option("--trace-skip-s", a->trace_skip_s, "seconds of the trace left out");
  command->add_option("--rate-scale", a->rate_scale, "2: arrivals come twice as fast")
      ->check(CLI::PositiveNumber);
  command->add_option("--length-scale", a->length_scale, "factor on the trace's lengths")
      ->check(CLI::PositiveNumber);
  command->add_option("--tolerance", a->tolerance, "fall of tok/s that still counts as scaling")
      ->check(CLI::Range(0.0, 1.0));
  command->add_flag("--require-monotonic", a->requires_monotonic,
                    "exit 1 when tok/s falls as concurrency grows");
  command->callback([&context, command, a] { run(context, *command, *a); });
}

}  // namespace splitwave::app
