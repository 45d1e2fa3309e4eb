// The splitwave command line: parses, dispatches, maps errors to exit statuses. Nothing else.
#include <cstdio>
#include <exception>

#include "command.h"

namespace splitwave::app {

void fail(CommandContext& context, const CLI::App& command, const Error& error) {
  std::fprintf(stderr, "splitwave %s: %s\n", command.get_name().c_str(), error.message.c_str());
  context.exit_code = exit_status(error.kind);
}

CLI::App* add_command(CLI::App& root, CommandContext& context, const std::string& name,
                      const std::string& summary, const std::string& example) {
  CLI::App* command = root.add_subcommand(name, summary);
  command->add_flag("--json", context.json, "print one JSON document on stdout");
  command->footer("Example:\n  " + example);
  return command;
}

}  // namespace splitwave::app

int main(int argc, char** argv) {
  using namespace splitwave::app;
  CLI::App root{"splitwave: sparse MLA decode, tuned by gated experiments"};
  root.require_subcommand(1);
  CommandContext context;
  add_ab(root, context);
  add_bench(root, context);
  add_canary(root, context);
  add_doctor(root, context);
  add_fit(root, context);
  add_graph(root, context);
  add_load(root, context);
  add_model(root, context);
  add_occupancy(root, context);
  add_plan(root, context);
  add_profile(root, context);
  add_project(root, context);
  add_serve(root, context);
  add_verify(root, context);
  try {
    root.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help
    return root.exit(e);
  } catch (const CLI::ParseError& e) {
    root.exit(e);
    return splitwave::exit_status(splitwave::ErrorKind::bad_input);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "splitwave: %s\n", e.what());
    return splitwave::exit_status(splitwave::ErrorKind::environment);
  }
  return context.exit_code;
}
