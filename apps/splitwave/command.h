// How a subcommand plugs in. Owns CommandContext and the list of subcommands. Each cmd_NAME.cpp
// holds flags and printing only; the work is in the layers. Exit status: 0 done, 1 a gate failed, 2
// bad usage or input, 3 the environment lacks something.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "splitwave/status.h"

namespace splitwave::app {

struct CommandContext {
  bool json = false;   // --json of the subcommand that ran: stdout is one JSON document
  int exit_code = 0;   // what main returns
};

// Prints the error on stderr as "splitwave NAME: message" and sets the exit code.
void fail(CommandContext& context, const CLI::App& command, const Error& error);

// Adds the subcommand with its --json flag and an example in --help.
CLI::App* add_command(CLI::App& root, CommandContext& context, const std::string& name,
                      const std::string& summary, const std::string& example);

// One function a file, in the order in which --help lists them.
void add_ab(CLI::App& root, CommandContext& context);
void add_bench(CLI::App& root, CommandContext& context);
void add_canary(CLI::App& root, CommandContext& context);
void add_doctor(CLI::App& root, CommandContext& context);
void add_fit(CLI::App& root, CommandContext& context);
void add_graph(CLI::App& root, CommandContext& context);
void add_load(CLI::App& root, CommandContext& context);
void add_model(CLI::App& root, CommandContext& context);
void add_occupancy(CLI::App& root, CommandContext& context);
void add_plan(CLI::App& root, CommandContext& context);
void add_profile(CLI::App& root, CommandContext& context);
void add_project(CLI::App& root, CommandContext& context);
void add_serve(CLI::App& root, CommandContext& context);
void add_verify(CLI::App& root, CommandContext& context);

}  // namespace splitwave::app
