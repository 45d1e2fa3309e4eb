// splitwave ab: experiments. Flags and printing of new, seal, import, report and list; `ab run` is
// cmd_ab_run.cpp's.
#include <cstdio>
#include <memory>
#include <string>

#include "base/files.h"
#include "base/json_writer.h"
#include "base/text_table.h"
#include "cmd_ab.h"
#include "experiment/operations.h"
#include "experiment/report.h"

namespace splitwave::app {

namespace ex = splitwave::experiment;

void fail_ab(CommandContext& context, const CLI::App& command, const Error& error) {
  std::fprintf(stderr, "splitwave ab %s: %s\n", command.get_name().c_str(), error.message.c_str());
  context.exit_code = exit_status(error.kind);
}

void finish_record(CommandContext& context, const CLI::App& command, const ex::ResultRecord& record,
                   const std::string& folder) {
  Status plots;
  if (Status s = ex::write_record(record, folder, plots); !s.ok()) {
    return fail_ab(context, command, s.error());
  }
  if (!plots.ok()) {
    std::fprintf(stderr, "splitwave ab %s: %s\n", command.get_name().c_str(),
                 plots.error().message.c_str());
  }
  std::fputs(context.json ? ex::summary_json(record, folder).c_str()
                          : ex::closing_text(record, folder).c_str(),
             stdout);
}

namespace {

struct Arguments {
  std::string folder;
  std::string experiments = "experiments";
  std::string slug;
  std::string file;
  std::string out;
  bool adds_run = false;
};

void print_object(const std::vector<std::pair<const char*, std::string>>& fields) {
  JsonWriter json;
  json.begin_object();
  for (const auto& [name, value] : fields) json.field(name, value);
  json.end_object();
  std::fputs(json.str().c_str(), stdout);
}

void add_new(CLI::App& ab, CommandContext& context, const std::shared_ptr<Arguments>& a) {
  CLI::App* command = add_command(ab, context, "new", "write the template of the next experiment",
                                  "splitwave ab new wider-head-blocks");
  command->add_option("slug", a->slug, "a few words: a-z, 0-9, -")->required();
  command->add_option("--experiments", a->experiments, "the folder of all experiments");
  command->callback([&context, command, a] {
    const auto folder = ex::new_experiment(a->experiments, a->slug);
    if (!folder.ok()) return fail_ab(context, *command, folder.error());
    if (context.json) return print_object({{"folder", *folder}});
    std::printf("%s/%s: fill it in, commit it, then: splitwave ab run %s\n", folder->c_str(),
                ex::k_plan_file, folder->c_str());
  });
}

void add_seal(CLI::App& ab, CommandContext& context, const std::shared_ptr<Arguments>& a) {
  CLI::App* command =
      add_command(ab, context, "seal", "write a committed plan as one file for splitwave-runner",
                  "splitwave ab seal experiments/0003-x --out 0003-x.sealed");
  command->add_option("folder", a->folder, "the experiment")->required();
  command->add_option("--out", a->out, "the sealed file")->required();
  command->callback([&context, command, a] {
    const auto plan = ex::load_plan(a->folder);
    if (!plan.ok()) return fail_ab(context, *command, plan.error());
    const auto text = ex::seal_plan(*plan);
    if (!text.ok()) return fail_ab(context, *command, text.error());
    if (Status s = write_file(a->out, *text); !s.ok()) return fail_ab(context, *command, s.error());
    if (context.json) {
      return print_object({{"file", a->out},
                           {"plan_sha256", plan->registration.plan_sha256},
                           {"commit", plan->registration.commit}});
    }
    std::printf("%s: on the other machine: splitwave-runner %s --out %s.run\n", a->out.c_str(),
                a->out.c_str(), plan->manifest.run.slug.c_str());
  });
}

void add_import(CLI::App& ab, CommandContext& context, const std::shared_ptr<Arguments>& a) {
  CLI::App* command =
      add_command(ab, context, "import", "make the record from what splitwave-runner wrote",
                  "splitwave ab import 0003-x.run experiments/0003-x");
  command->add_option("file", a->file, "the runner's output")->required();
  command->add_option("folder", a->folder, "the experiment")->required();
  command->add_option("--out", a->out, "write the record there instead");
  command->add_flag("--add-run", a->adds_run, "append to a record that exists");
  command->callback([&context, command, a] {
    const auto plan = ex::load_plan(a->folder);
    if (!plan.ok()) return fail_ab(context, *command, plan.error());
    const auto text = read_file(a->file, ex::k_result_bytes_max);
    if (!text.ok()) return fail_ab(context, *command, text.error());
    auto run = ex::import_run(*plan, *text, a->file);
    if (!run.ok()) return fail_ab(context, *command, run.error());
    const std::string out = a->out.empty() ? a->folder : a->out;
    auto record = ex::begin_record(*plan, out, a->adds_run);
    if (!record.ok()) return fail_ab(context, *command, record.error());
    record->runs.push_back(std::move(*run));
    finish_record(context, *command, *record, out);
    if (context.exit_code != 0) return;
    if (Status s = ex::judge_run(*record, false); !s.ok()) fail_ab(context, *command, s.error());
  });
}

void add_report(CLI::App& ab, CommandContext& context, const std::shared_ptr<Arguments>& a) {
  CLI::App* command = add_command(
      ab, context, "report", "derive verdicts from raw samples again; write REPORT.md and plots",
      "splitwave ab report experiments/0000-demo");
  command->add_option("folder", a->folder, "the folder of a result.json")->required();
  command->callback([&context, command, a] {
    const auto record = ex::read_result(a->folder);
    if (!record.ok()) return fail_ab(context, *command, record.error());
    const Status plots = ex::write_plots(*record, a->folder);
    const Status report =
        write_file(a->folder + "/" + ex::k_report_file, ex::report_text(*record, plots.ok()));
    if (!report.ok()) return fail_ab(context, *command, report.error());
    std::fputs(context.json ? ex::summary_json(*record, a->folder).c_str()
                            : ex::closing_text(*record, a->folder).c_str(),
               stdout);
    if (!plots.ok()) fail_ab(context, *command, plots.error());
  });
}

void add_list(CLI::App& ab, CommandContext& context, const std::shared_ptr<Arguments>& a) {
  CLI::App* command =
      add_command(ab, context, "list", "all experiments with their verdicts", "splitwave ab list");
  command->add_option("--experiments", a->experiments, "the folder of all experiments");
  command->callback([&context, a] {
    const auto entries = ex::list_experiments(a->experiments);
    if (context.json) {
      JsonWriter json;
      json.begin_object().key("experiments").begin_array();
      for (const ex::ListEntry& e : entries) {
        json.begin_object()
            .field("slug", e.slug)
            .field("verdict", e.state)
            .field("runs", e.runs)
            .field("question", e.question)
            .field("decision", e.decision)
            .end_object();
      }
      json.end_array().end_object();
      std::fputs(json.str().c_str(), stdout);
      return;
    }
    TextTable table({"experiment", "verdict", "runs", "decision"});
    for (const ex::ListEntry& e : entries) {
      table.add_row(
          {e.slug, e.state, std::to_string(e.runs), e.decision.empty() ? e.question : e.decision});
    }
    std::fputs(entries.empty() ? "no experiments here\n" : table.str().c_str(), stdout);
  });
}

}  // namespace

void add_ab(CLI::App& root, CommandContext& context) {
  CLI::App* ab = root.add_subcommand("ab", "experiments: planned in writing, gated, decided");
  ab->require_subcommand(1);
  const auto arguments = std::make_shared<Arguments>();
  add_new(*ab, context, arguments);
  add_ab_run(*ab, context);
  add_seal(*ab, context, arguments);
  add_import(*ab, context, arguments);
  add_report(*ab, context, arguments);
  add_list(*ab, context, arguments);
}

}  // namespace splitwave::app
