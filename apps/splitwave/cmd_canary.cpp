// splitwave canary: the corruption gate, against a server that runs already.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "base/files.h"
#include "base/progress.h"
#include "command.h"
#include "load/canary.h"
#include "target_options.h"

namespace splitwave::app {
namespace {

constexpr std::int64_t k_solo_file_bytes_max = std::int64_t{256} << 20;

struct Arguments {
  load::CanaryOptions options;
  int sessions = 240;
  int needles = 8;
  std::uint64_t seed = 1;
  std::string solo_file;      // of an earlier run
  std::string solo_out_file;  // where to keep this one's
};

load::CanaryProgress shown(const char* what, std::unique_ptr<Progress>* bar) {
  return [what, bar](int done, int all) {
    if (done == 1) *bar = std::make_unique<Progress>(what, all);
    (*bar)->advance();
    if (done == all) bar->reset();
  };
}

Expected<load::SoloRun> solo_run(const Arguments& a,
                                 const std::vector<load::CanarySession>& sessions) {
  if (!a.solo_file.empty()) {
    const auto text = read_file(a.solo_file, k_solo_file_bytes_max);
    if (!text) return text.error();
    return load::read_solo_json(*text, a.solo_file, sessions, a.seed);
  }
  std::unique_ptr<Progress> bar;
  auto solo = load::run_solo(sessions, a.options, shown("canary, solo", &bar));
  if (!solo || a.solo_out_file.empty()) return solo;
  const Status written = write_file(a.solo_out_file, load::solo_json(*solo, a.seed));
  if (!written.ok()) return written.error();
  return solo;
}

void run(CommandContext& context, const CLI::App& command, Arguments& a, bool solo_only) {
  const auto target = load::resolve_target(a.options.target);
  if (!target) return fail(context, command, target.error());
  a.options.target = *target;
  const auto sessions = load::canary_sessions(a.sessions, a.needles, a.seed);
  if (!sessions) return fail(context, command, sessions.error());
  const auto solo = solo_run(a, *sessions);
  if (!solo) return fail(context, command, solo.error());
  if (solo_only) return;
  std::unique_ptr<Progress> bar;
  const auto report = load::run_crowd(*sessions, *solo, a.options, shown("canary, crowd", &bar));
  if (!report) return fail(context, command, report.error());
  const std::string text = context.json ? load::canary_json(*report) : load::canary_text(*report);
  std::fputs(text.c_str(), stdout);
  if (!report->passed()) context.exit_code = exit_status(ErrorKind::gate);
}

}  // namespace

void add_canary(CLI::App& root, CommandContext& context) {
  auto a = std::make_shared<Arguments>();
  auto solo_only = std::make_shared<bool>(false);
  CLI::App* command = add_command(
      root, context, "canary", "does any output depend on what else the server does?",
      "splitwave canary --url http://127.0.0.1:8000 --sessions 240 --concurrency 96 --json");
  load::CanaryOptions& o = a->options;
  add_target_options(*command, o.target);
  command->add_option("--sessions", a->sessions, "tool sessions")->check(CLI::Range(1, 240));
  command->add_option("--needles", a->needles, "texts with a pass phrase")
      ->check(CLI::Range(0, 1000));
  command->add_option("--concurrency", o.concurrency, "sessions at a time")
      ->check(CLI::Range(1, load::k_concurrency_in_flight_max));
  command->add_option("--output-tokens", o.output_tokens, "of a turn")->check(CLI::Range(1, 4096));
  command->add_option("--seed", a->seed, "of identifiers, needles and sampling");
  command->add_flag("--stop-at-first", o.stops_at_first, "a divergence ends the run");
  auto* in = command->add_option("--solo", a->solo_file,
                                 "judge against this solo run instead of making one");
  auto* out = command->add_option("--solo-out", a->solo_out_file, "keep the solo run in a file");
  in->excludes(out);
  command->add_flag("--solo-only", *solo_only, "make the solo run and stop")->needs(out);
  command->callback([&context, command, a, solo_only] { run(context, *command, *a, *solo_only); });
}

}  // namespace splitwave::app
