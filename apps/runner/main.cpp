// splitwave-runner: executes a sealed plan on a machine that has neither git nor this repository's
// packages, and writes one file for `splitwave ab import`. Standard library (and CUDA) only. Exit
// status as splitwave's: 0 done, 1 a gate failed, 2 bad input, 3 the environment lacks something.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/files.h"
#include "experiment/decode_executor.h"
#include "experiment/runner.h"
#include "experiment/runner_output.h"
#include "experiment/seal.h"

namespace {

using namespace splitwave;
using namespace splitwave::experiment;

std::atomic<bool> g_interrupted{false};

void on_signal(int) {
  g_interrupted = true;
  std::signal(SIGINT, SIG_DFL);  // a second Ctrl-C ends at once
}

constexpr const char* k_usage =
    "usage: splitwave-runner SEALED --out FILE    executes a sealed plan\n"
    "       splitwave-runner SEALED --dry-run     prints what it would do and what it costs\n"
    "Example:\n"
    "  splitwave-runner 0003-x.sealed --out 0003-x.run\n";

int fail(const Error& error) {
  std::fprintf(stderr, "splitwave-runner: %s\n", error.message.c_str());
  return exit_status(error.kind);
}

int execute(const std::string& sealed_path, const std::string& out, bool is_dry_run) {
  const auto text = read_file(sealed_path, k_sealed_bytes_max);
  if (!text.ok()) return fail(text.error());
  const auto plan = unseal(*text);
  if (!plan.ok()) return fail(plan.error());
  const auto executor = make_decode_executor(plan->run);
  if (!executor.ok()) return fail(executor.error());
  if (is_dry_run) {
    const auto description = describe_run(plan->run, **executor);
    if (!description.ok()) return fail(description.error());
    std::fputs(description->c_str(), stdout);
    return 0;
  }
  if (Status s = write_file(out, ""); !s.ok()) return fail(s.error());  // before the run, not after
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  const auto run = run_experiment(plan->run, **executor, {&g_interrupted, true});
  if (!run.ok()) return fail(run.error());
  if (Status s = write_file(out, runner_output(*text, *run)); !s.ok()) return fail(s.error());
  std::printf("%s: %s, %zu rounds; import it with: splitwave ab import %s experiments/%s\n",
              out.c_str(), name_of(run->end), run->rounds.size(), out.c_str(),
              plan->run.slug.c_str());
  for (const GateResult& g : run->gates) {
    if (g.passed) continue;
    return fail(gate_error("arm " + plan->run.arms[static_cast<std::size_t>(g.arm)].name +
                           " failed the " + g.gate + " gate: " + g.detail));
  }
  return run->is_complete() ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  std::string sealed;
  std::string out;
  bool is_dry_run = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      std::fputs(k_usage, stdout);
      return 0;
    }
    if (argument == "--dry-run") {
      is_dry_run = true;
    } else if (argument == "--out" && i + 1 < argc) {
      out = argv[++i];
    } else if (sealed.empty() && argument[0] != '-') {
      sealed = argument;
    } else {
      std::fprintf(stderr, "splitwave-runner: unknown argument '%s'\n%s", argv[i], k_usage);
      return 2;
    }
  }
  if (sealed.empty() || (out.empty() && !is_dry_run)) {
    std::fputs(k_usage, stderr);
    return 2;
  }
  return execute(sealed, out, is_dry_run);
}
