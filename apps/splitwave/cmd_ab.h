// What cmd_ab.cpp and cmd_ab_run.cpp share: error printing and the end of a command that made a
// record.
#pragma once

#include <string>

#include "command.h"
#include "experiment/record.h"

namespace splitwave::app {

// "splitwave ab NAME: message" on stderr, and the exit code.
void fail_ab(CommandContext& context, const CLI::App& command, const Error& error);

// Writes result.json, plots and REPORT.md; prints the verdict, or the JSON document.
void finish_record(CommandContext& context, const CLI::App& command,
                   const experiment::ResultRecord& record, const std::string& folder);

void add_ab_run(CLI::App& ab, CommandContext& context);

}  // namespace splitwave::app
