// splitwave graph check: proves exported step graphs free of hazards, or names nodes, buffer,
// bytes.
#include <cstdio>
#include <memory>
#include <string>

#include "base/json_writer.h"
#include "command.h"
#include "model/graph_file.h"
#include "runtime/graph_hazards.h"

namespace splitwave::app {
namespace {

void print_json(const std::vector<StepGraph>& graphs, const std::vector<Hazard>& hazards) {
  JsonWriter json;
  json.begin_object().field("graphs", static_cast<std::int64_t>(graphs.size()));
  std::int64_t nodes = 0;
  for (const StepGraph& graph : graphs) nodes += static_cast<std::int64_t>(graph.nodes.size());
  json.field("nodes", nodes);
  json.key("hazards").begin_array();
  for (const Hazard& h : hazards) {
    json.begin_object();
    json.field("kind", name_of(h.kind)).field("graph", h.graph);
    json.key("nodes").begin_array().value(h.first);
    if (!h.second.empty()) json.value(h.second);
    json.end_array();
    json.field("buffer", h.buffer).field("arena", h.arena);
    json.key("bytes").begin_array().value(h.begin).value(h.end).end_array();
    json.field("explanation", h.explanation).end_object();
  }
  json.end_array().end_object();
  std::fputs(json.str().c_str(), stdout);
}

void print_text(const std::vector<StepGraph>& graphs, const std::vector<Hazard>& hazards) {
  for (const Hazard& h : hazards) {
    std::printf("%s in %s: %s%s%s, buffer %s, bytes [%lld, %lld) of arena %s: %s\n",
                name_of(h.kind), h.graph.c_str(), h.first.c_str(), h.second.empty() ? "" : " and ",
                h.second.c_str(), h.buffer.c_str(), static_cast<long long>(h.begin),
                static_cast<long long>(h.end), h.arena.c_str(), h.explanation.c_str());
  }
  if (hazards.empty()) {
    std::printf("%zu graph%s proven free of hazards under the declared ranges\n", graphs.size(),
                graphs.size() == 1 ? "" : "s");
  } else {
    std::printf("%zu hazard%s\n", hazards.size(), hazards.size() == 1 ? "" : "s");
  }
}

void check(CommandContext& context, const CLI::App& command, const std::string& path) {
  const auto graphs = model::read_graph_file(path);
  if (!graphs) return fail(context, command, graphs.error());
  const auto hazards = check_graphs(*graphs);
  if (!hazards) return fail(context, command, hazards.error());
  if (context.json) {
    print_json(*graphs, *hazards);
  } else {
    print_text(*graphs, *hazards);
  }
  if (!hazards->empty()) context.exit_code = exit_status(ErrorKind::gate);
}

}  // namespace

void add_graph(CLI::App& root, CommandContext& context) {
  CLI::App* group = root.add_subcommand("graph", "prove a step graph free of memory hazards");
  group->require_subcommand(1);
  auto path = std::make_shared<std::string>();
  CLI::App* command = add_command(*group, context, "check", "check an exported step graph",
                                  "splitwave graph check step.json --json");
  command->add_option("file", *path, "the graph, as model/graph_file.h describes it")->required();
  command->callback([&context, command, path] { check(context, *command, *path); });
}

}  // namespace splitwave::app
