// splitwave profile: where a decode step's time goes, by operator. Runs the steps in this process;
// a running server gives the same of its own steps at /profile.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/text_table.h"
#include "serve/profile_run.h"
#include "serve/server.h"
#include "serve_config.h"

namespace splitwave::app {
namespace {

void print_profile(const CommandContext& context, const std::string& text) {
  if (context.json) {
    std::fputs(text.c_str(), stdout);
    return;
  }
  const auto json = nlohmann::json::parse(text);
  TextTable table({"operator", "calls", "us/call", "share %"});
  for (const auto& o : json["operators"]) {
    table.add_row({o["name"], std::to_string(o["calls"].get<std::int64_t>()),
                   fixed(o["us_per_call"], 1), fixed(o["share"].get<double>() * 100, 1)});
  }
  std::fputs(table.str().c_str(), stdout);
  if (json.contains("largest")) {
    std::printf("largest: %s\n", json["largest"].get<std::string>().c_str());
  }
}

void profile(CommandContext& context, const CLI::App& command, const ServeArguments& arguments,
             const serve::ProfileOptions& options) {
  auto resolved = resolve_serve(arguments);
  if (!resolved.ok()) return fail(context, command, resolved.error());
  serve::ServerConfig& config = resolved->config;
  if (options.batch > config.scheduler.sequences_max) {
    return fail(context, command,
                bad_input("--batch " + std::to_string(options.batch) + " exceeds sequences_max " +
                          std::to_string(config.scheduler.sequences_max)));
  }
  auto served = serve::load_served_model(config, resolved->state_dir);
  if (!served.ok()) return fail(context, command, served.error());
  const auto json =
      serve::profile_engine(*served->engine, options, config.scheduler.tokens_per_step);
  if (!json.ok()) return fail(context, command, json.error());
  print_profile(context, *json);
}

}  // namespace

void add_profile(CLI::App& root, CommandContext& context) {
  const auto arguments = std::make_shared<ServeArguments>();
  const auto options = std::make_shared<serve::ProfileOptions>();
  CLI::App* command = add_command(root, context, "profile", "operator times of decode steps",
                                  "splitwave profile --batch 64 --json");
  add_config_flags(*command, arguments);
  command->add_option("--batch", options->batch, "sequences")->check(CLI::Range(1, 4096));
  command->add_option("--context", options->context_tokens, "tokens of each before the steps")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--steps", options->steps, "measured steps")->check(CLI::Range(1, 4096));
  command->callback([&context, command, arguments, options] {
    profile(context, *command, *arguments, *options);
  });
}

}  // namespace splitwave::app
