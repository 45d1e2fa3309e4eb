// splitwave model make-tiny|inspect: writes a small V4 checkpoint; checks any checkpoint.
#include <cstdio>
#include <memory>
#include <string>

#include "base/json_writer.h"
#include "base/text_table.h"
#include "command.h"
#include "model/checkpoint.h"
#include "model/make_tiny.h"
#include "model/tensor_spec.h"

namespace splitwave::app {
namespace {

void print_json(const model::Checkpoint& checkpoint) {
  JsonWriter json;
  json.begin_object();
  json.field("directory", checkpoint.directory());
  json.field("layers", checkpoint.config().layers);
  json.field("tensors", static_cast<std::int64_t>(checkpoint.tensors().size()));
  json.field("bytes", checkpoint.bytes());
  json.key("problems").begin_array();
  for (const std::string& problem : checkpoint.problems()) json.value(problem);
  json.end_array().end_object();
  std::fputs(json.str().c_str(), stdout);
}

void print_text(const model::Checkpoint& checkpoint) {
  const model::ModelConfig& c = checkpoint.config();
  std::printf("%s: %zu tensors, %lld bytes\n", checkpoint.directory().c_str(),
              checkpoint.tensors().size(), static_cast<long long>(checkpoint.bytes()));
  std::printf("%d layers, hidden %d, %d heads, %d experts (%d a token, %s), vocabulary %d\n",
              c.layers, c.hidden, c.heads, c.routed_experts, c.experts_per_token,
              c.expert_format == model::ExpertFormat::mxfp4 ? "MXFP4" : "NVFP4", c.vocab_size);
  for (const std::string& problem : checkpoint.problems())
    std::printf("problem: %s\n", problem.c_str());
  if (checkpoint.problems().empty()) std::printf("no problems\n");
}

// Prints a checkpoint; problems are a wrong result (exit 1).
void inspect(CommandContext& context, const CLI::App& command, const std::string& directory) {
  const auto checkpoint = model::Checkpoint::open(directory);
  if (!checkpoint) return fail(context, command, checkpoint.error());
  if (context.json) {
    print_json(*checkpoint);
  } else {
    print_text(*checkpoint);
  }
  if (!checkpoint->problems().empty()) context.exit_code = exit_status(ErrorKind::gate);
}

}  // namespace

void add_model(CLI::App& root, CommandContext& context) {
  CLI::App* group =
      root.add_subcommand("model", "write a tiny V4 checkpoint, or check any checkpoint");
  group->require_subcommand(1);

  struct Arguments {
    std::string directory;
    std::string experts = "mxfp4";
    model::TinyOptions tiny;
  };
  auto arguments = std::make_shared<Arguments>();

  CLI::App* tiny = add_command(*group, context, "make-tiny", "write a small V4 checkpoint",
                               "splitwave model make-tiny /tmp/tiny --experts nvfp4");
  tiny->add_option("directory", arguments->directory, "where to write")->required();
  tiny->add_option("--seed", arguments->tiny.seed, "seed of the random values");
  tiny->add_option("--experts", arguments->experts, "format of the routed experts")
      ->check(CLI::IsMember({"mxfp4", "nvfp4"}));
  tiny->callback([&context, tiny, arguments] {
    arguments->tiny.expert_format =
        arguments->experts == "nvfp4" ? model::ExpertFormat::nvfp4 : model::ExpertFormat::mxfp4;
    const Status made = model::make_tiny(arguments->directory, arguments->tiny);
    if (!made.ok()) return fail(context, *tiny, made.error());
    inspect(context, *tiny, arguments->directory);
  });

  CLI::App* check = add_command(*group, context, "inspect", "check a checkpoint's tensors",
                                "splitwave model inspect /tmp/tiny --json");
  check->add_option("directory", arguments->directory, "the checkpoint")->required();
  check->callback([&context, check, arguments] { inspect(context, *check, arguments->directory); });
}

}  // namespace splitwave::app
