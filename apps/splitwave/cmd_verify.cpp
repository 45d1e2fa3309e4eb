// splitwave verify: the numerics contract's matrix, run on a backend of this machine and judged
// against the double reference.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "base/progress.h"
#include "base/text_table.h"
#include "command.h"
#include "runtime/suite_registry.h"

namespace splitwave::app {
namespace {

struct Flags {
  std::string backend = "cpu";
  std::string suite = "quick";
  std::string op;
  int device = 0;
  int threads = 0;
};

struct OpResult {
  std::string op;
  SuiteResult result;
};

// The failures that a person is shown; --json holds all of them.
constexpr std::size_t k_failures_shown_max = 20;

std::string op_names() {
  std::string names;
  for (const OpSuite& suite : op_suites()) {
    names += (names.empty() ? "" : ", ") + std::string(suite.op);
  }
  return names;
}

Expected<std::vector<OpResult>> run_suites(const Flags& flags) {
  std::vector<const OpSuite*> chosen;
  if (flags.op.empty()) {
    for (const OpSuite& suite : op_suites()) chosen.push_back(&suite);
  } else if (const OpSuite* suite = find_op_suite(flags.op); suite != nullptr) {
    chosen.push_back(suite);
  } else {
    return bad_input("--op " + flags.op +
                     " is not an operator with a suite; what works: " + op_names());
  }
  std::vector<OpResult> results;
  for (const OpSuite* suite : chosen) {
    std::unique_ptr<Progress> progress;
    SuiteRequest request;
    request.backend = flags.backend == "cuda" ? Backend::cuda : Backend::cpu;
    request.size = flags.suite == "full" ? SuiteSize::full : SuiteSize::quick;
    request.device = flags.device;
    request.threads = flags.threads;
    request.on_start = [&](std::int64_t cells) {
      progress = std::make_unique<Progress>("verify " + std::string(suite->op), cells);
    };
    request.on_cell = [&] { progress->advance(); };
    Expected<SuiteResult> result = suite->run(request);
    if (!result.ok()) return result.error();
    results.push_back({std::string(suite->op), std::move(*result)});
  }
  return results;
}

// decode's dimensions keep their names; another operator's carry its own in front.
std::string qualified(const OpResult& r, const std::string& name) {
  return r.op == "sparse_decode" ? name : r.op + "." + name;
}

void print_json(const Flags& flags, const std::vector<OpResult>& results, std::int64_t cases,
                std::int64_t failed) {
  double worst_rel_l2 = 0;
  double worst_row_rel_l2 = 0;
  for (const OpResult& r : results) {
    worst_rel_l2 = std::max(worst_rel_l2, r.result.worst_rel_l2);
    worst_row_rel_l2 = std::max(worst_row_rel_l2, r.result.worst_row_rel_l2);
  }
  JsonWriter w;
  w.begin_object().field("backend", flags.backend).field("suite", flags.suite);
  w.field("cases", cases).field("failed", failed);
  w.field("worst_rel_l2", worst_rel_l2).field("worst_row_rel_l2", worst_row_rel_l2);
  w.key("failures").begin_array();
  for (const OpResult& r : results) {
    for (const SuiteFailure& f : r.result.failures) {
      w.begin_object().field("op", r.op).field("key", f.key).field("reason", f.reason).end_object();
    }
  }
  w.end_array().key("ops").begin_array();
  for (const OpResult& r : results) {
    w.begin_object()
        .field("op", r.op)
        .field("cases", r.result.cases)
        .field("failed", r.result.failed);
    w.field("worst_lse_error", r.result.worst_lse_error);
    w.key("families").begin_object();
    for (const auto& [family, count] : r.result.families) w.field(family, count);
    w.end_object().end_object();
  }
  w.end_array().key("dimensions").begin_object();
  for (const OpResult& r : results) {
    for (const auto& [name, values] : r.result.dimensions) {
      w.key(qualified(r, name)).begin_array();
      for (const std::string& value : values) w.value(value);
      w.end_array();
    }
  }
  w.end_object().end_object();
  std::fputs(w.str().c_str(), stdout);
}

void print_text(const std::vector<OpResult>& results, std::int64_t cases, std::int64_t failed) {
  TextTable table({"op", "family", "cells"});
  for (const OpResult& r : results) {
    for (const auto& [family, count] : r.result.families) {
      table.add_row({r.op, family, std::to_string(count)});
    }
  }
  std::fputs(table.str().c_str(), stdout);
  std::size_t shown = 0;
  for (const OpResult& r : results) {
    for (const SuiteFailure& f : r.result.failures) {
      if (++shown > k_failures_shown_max) break;
      std::printf("FAILED %s: %s\n  %s\n", r.op.c_str(), f.key.c_str(), f.reason.c_str());
    }
  }
  if (failed > static_cast<std::int64_t>(k_failures_shown_max)) {
    std::printf("(%zu of %lld failures shown; --json lists all)\n", k_failures_shown_max,
                static_cast<long long>(failed));
  }
  for (const OpResult& r : results) {
    std::printf("%s: %lld cells, %lld failed, worst relative L2 %.3g (one row and head: %.3g)\n",
                r.op.c_str(), static_cast<long long>(r.result.cases),
                static_cast<long long>(r.result.failed), r.result.worst_rel_l2,
                r.result.worst_row_rel_l2);
  }
  if (results.size() > 1) {
    std::printf("all: %lld cells, %lld failed\n", static_cast<long long>(cases),
                static_cast<long long>(failed));
  }
}

}  // namespace

void add_verify(CLI::App& root, CommandContext& context) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      add_command(root, context, "verify", "run the numerics contract's matrix on a backend",
                  "splitwave verify --backend cpu --suite quick");
  command->add_option("--backend", flags->backend, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("--suite", flags->suite, "quick (seconds) or full (minutes)")
      ->check(CLI::IsMember({"quick", "full"}))
      ->capture_default_str();
  command->add_option("--op", flags->op, "one operator (default: all): " + op_names());
  command->add_option("--device", flags->device, "CUDA device ordinal")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--threads", flags->threads, "threads (default: all cores)")
      ->check(CLI::Range(0, 256));
  command->callback([command, flags, &context] {
    const Expected<std::vector<OpResult>> results = run_suites(*flags);
    if (!results.ok()) return fail(context, *command, results.error());
    std::int64_t cases = 0;
    std::int64_t failed = 0;
    for (const OpResult& r : *results) {
      cases += r.result.cases;
      failed += r.result.failed;
    }
    if (context.json) {
      print_json(*flags, *results, cases, failed);
    } else {
      print_text(*results, cases, failed);
    }
    if (failed > 0 || cases == 0) context.exit_code = exit_status(ErrorKind::gate);
  });
}

}  // namespace splitwave::app
