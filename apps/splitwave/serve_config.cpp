// Flags are made from the configuration's own table, so that file and flags cannot differ.
#include "serve_config.h"

#include <algorithm>
#include <array>

#include "base/files.h"
#include "runtime/environment.h"

namespace splitwave::app {
namespace {

constexpr std::int64_t k_config_bytes_max = 1 << 20;
constexpr std::array<const char*, 6> k_faults = {
    "none", "swapped_pages", "dropped_dependency", "stale_stride", "shared_scratch", "flipped_bit"};

std::string flag_name(const std::string& field) {
  std::string flag = "--" + field;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

}  // namespace

void add_config_flags(CLI::App& command, const std::shared_ptr<ServeArguments>& arguments) {
  command.add_option("--config", arguments->config_file, "TOML file; flags win over it");
  serve::ServerConfig defaults;
  for (const serve::ConfigField& f : serve::config_fields(defaults)) {
    const std::string name = f.name;
    command.add_option_function<std::string>(
        flag_name(name),
        [arguments, name](const std::string& text) { arguments->flags[name] = text; }, f.help);
  }
  command.add_option("--fault", arguments->fault, "seed a bug, to test the corruption gate only")
      ->check(CLI::IsMember(std::vector<std::string>(k_faults.begin(), k_faults.end())));
  command.add_option("--fault-seed", arguments->fault_seed, "where the bug strikes");
}

Expected<ResolvedServe> resolve_serve(const ServeArguments& arguments) {
  const auto environment = read_environment();
  if (!environment.ok()) return environment.error();
  if (environment->backend == Backend::cuda) {
    return environment_error(
        "SPLITWAVE_BACKEND=cuda: the model's engine runs on the CPU in this build; unset it");
  }
  ResolvedServe result;
  result.state_dir = environment->state_dir;
  serve::ServerConfig& config = result.config;
  config.engine.plan = to_string(environment->plan);
  config.engine.threads = environment->threads.value_or(0);
  if (!arguments.config_file.empty()) {
    const auto text = read_file(arguments.config_file, k_config_bytes_max);
    if (!text.ok()) return text.error();
    const Status applied = serve::apply_toml(*text, arguments.config_file, config);
    if (!applied.ok()) return applied.error();
  }
  for (const serve::ConfigField& f : serve::config_fields(config)) {
    const auto at = arguments.flags.find(f.name);
    if (at == arguments.flags.end()) continue;
    if (Status applied = serve::apply_flag(f, at->second); !applied.ok()) return applied.error();
  }
  const auto fault = std::find(k_faults.begin(), k_faults.end(), arguments.fault);
  config.engine.fault = static_cast<model::SeededFault>(fault - k_faults.begin());
  config.engine.fault_seed = arguments.fault_seed;
  if (Status checked = serve::check_config(config); !checked.ok()) return checked.error();
  return result;
}

}  // namespace splitwave::app
