// splitwave ab run: one run of a committed plan. Flags, signals and printing only.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include "base/json_writer.h"
#include "cmd_ab.h"
#include "experiment/decode_executor.h"
#include "experiment/operations.h"
#include "experiment/runner.h"

namespace splitwave::app {
namespace {

namespace ex = splitwave::experiment;

std::atomic<bool> g_interrupted{false};

void on_signal(int signal) {
  g_interrupted = true;
  std::signal(signal, SIG_DFL);  // a second one ends at once
}

struct RunArguments {
  std::string folder;
  std::string out;
  std::string require;
  bool is_dry_run = false;
  bool adds_run = false;
};

void dry_run(CommandContext& context, const CLI::App& command, const ex::LoadedPlan& plan,
             ex::ArmExecutor& executor) {
  const ex::RunSpec& run = plan.resolved.run;
  const auto text = ex::describe_run(run, executor);
  if (!text.ok()) return fail_ab(context, command, text.error());
  if (!context.json) {
    std::printf("%s, %s\n%s", run.slug.c_str(), ex::name_of(plan.registration.state),
                text->c_str());
    return;
  }
  const ex::RunCost cost = ex::estimate_cost(run, executor);
  JsonWriter json;
  json.begin_object()
      .field("experiment", run.slug)
      .field("dry_run", true)
      .field("verdict", "none")
      .field("preregistration", ex::name_of(plan.registration.state))
      .field("rounds", run.stopping.rounds)
      .field("gates_s", cost.gates_s)
      .field("rounds_s", cost.rounds_s)
      .field("description", *text);
  json.key("points").begin_row();
  for (const ex::PointSpec& p : run.points) json.value(p.concurrency);
  json.end_array().key("gates").begin_array().end_array().end_object();
  std::fputs(json.str().c_str(), stdout);
}

void run_plan(CommandContext& context, const CLI::App& command, const RunArguments& a) {
  const auto plan = ex::load_plan(a.folder);
  if (!plan.ok()) return fail_ab(context, command, plan.error());
  const std::string out = a.out.empty() ? a.folder : a.out;
  Expected<ex::ResultRecord> record = bad_input("dry run");
  if (!a.is_dry_run) {
    record = ex::begin_record(*plan, out, a.adds_run);
    if (!record.ok()) return fail_ab(context, command, record.error());
  }
  const auto executor = ex::make_decode_executor(plan->resolved.run);
  if (!executor.ok()) return fail_ab(context, command, executor.error());
  if (a.is_dry_run) return dry_run(context, command, *plan, **executor);
  if (!context.json) {
    const ex::ExecutorInfo info = (*executor)->info();
    const ex::RunCost cost = ex::estimate_cost(plan->resolved.run, **executor);
    std::printf("%s: %s\nbackend %s (%s): gates about %.0f s, then %d rounds, about %.0f s\n",
                plan->manifest.run.slug.c_str(), plan->manifest.question.c_str(),
                info.backend.c_str(), info.backend_reason.c_str(), cost.gates_s,
                plan->resolved.run.stopping.rounds, cost.rounds_s);
    std::fflush(stdout);
  }
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  auto run = ex::run_experiment(plan->resolved.run, **executor, {&g_interrupted, true});
  if (!run.ok()) return fail_ab(context, command, run.error());
  record->runs.push_back(std::move(*run));
  finish_record(context, command, *record, out);
  if (context.exit_code != 0) return;
  const Status judged = ex::judge_run(*record, a.require == "no-regression");
  if (!judged.ok()) fail_ab(context, command, judged.error());
}

}  // namespace

void add_ab_run(CLI::App& ab, CommandContext& context) {
  const auto a = std::make_shared<RunArguments>();
  CLI::App* command =
      add_command(ab, context, "run", "run a committed plan: gates, rounds, verdict, report",
                  "splitwave ab run experiments/0000-demo --out /tmp/demo");
  command->add_option("folder", a->folder, "the folder of experiment.toml")->required();
  command->add_flag("--dry-run", a->is_dry_run,
                    "print schedule, cost and end time; measure nothing");
  command->add_option("--out", a->out, "write the record there instead of beside the plan");
  command->add_flag("--add-run", a->adds_run, "append to a record that exists");
  command
      ->add_option("--require", a->require,
                   "no-regression: exit 1 unless every arm rules out a loss at every point")
      ->check(CLI::IsMember({"no-regression"}));
  command->callback([&context, command, a] { run_plan(context, *command, *a); });
}

}  // namespace splitwave::app
