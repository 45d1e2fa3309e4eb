// What `serve` and `profile` share: the configuration file, its flags, and the environment over the
// engine's defaults.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "command.h"
#include "serve/server_config.h"

namespace splitwave::app {

struct ServeArguments {
  std::string config_file;
  std::map<std::string, std::string> flags;  // field name to text, as given
  std::string fault = "none";
  std::uint64_t fault_seed = 0;
};

// --config and one flag for each field, plus the corruption gate's --fault and --fault-seed.
void add_config_flags(CLI::App& command, const std::shared_ptr<ServeArguments>& arguments);

struct ResolvedServe {
  serve::ServerConfig config;
  std::string state_dir;
};
// File, then flags, then the environment (SPLITWAVE_PLAN, _THREADS, _BACKEND, _STATE_DIR).
[[nodiscard]] Expected<ResolvedServe> resolve_serve(const ServeArguments& arguments);

}  // namespace splitwave::app
