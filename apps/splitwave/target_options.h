// The flags that name a server, shared by `load` and `canary`.
#pragma once

#include <CLI/CLI.hpp>

#include "load/load_run.h"

namespace splitwave::app {

// --url (default: serve's own), --model, --api-key.
void add_target_options(CLI::App& command, load::LoadTarget& target);

}  // namespace splitwave::app
