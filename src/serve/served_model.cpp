// From a checkpoint directory to an engine and a tokenizer; the embedded model when none is named.
#include <unistd.h>

#include <filesystem>

#include "base/files.h"
#include "model/checkpoint.h"
#include "model/make_tiny.h"
#include "serve/server.h"

namespace splitwave::serve {
namespace {

// A name that changes with the writer's format, so that an old folder is not taken for a new one.
constexpr const char* k_tiny_name = "splitwave-tiny-v4";

Expected<std::string> embedded_model(const std::string& state_dir) {
  std::error_code ignored;
  const std::string base = state_dir.empty()
                               ? std::filesystem::temp_directory_path(ignored).string() +
                                     "/splitwave-" + std::to_string(getuid())
                               : state_dir;
  if (Status made = make_folder(base); !made.ok()) return made.error();
  const std::string folder = base + "/" + k_tiny_name;
  // Written afresh each time (atomic files, a second at most): never a half-written or edited one.
  if (Status made = model::make_tiny(folder, {}); !made.ok()) return made.error();
  return folder;
}

}  // namespace

Expected<ServedModel> load_served_model(ServerConfig& config, const std::string& state_dir) {
  if (config.model.empty()) {
    const auto made = embedded_model(state_dir);
    if (!made.ok()) return made.error();
    config.model = *made;
  }
  auto opened = model::Checkpoint::open(config.model);
  if (!opened.ok()) return opened.error();
  if (!opened->problems().empty()) {
    std::string text = config.model + ": the checkpoint has problems:";
    for (const std::string& problem : opened->problems()) text += "\n  " + problem;
    return bad_input(text);
  }
  auto tokenizer = Tokenizer::open(config.model);
  if (!tokenizer.ok()) return tokenizer.error();
  config.engine.sequences_max = config.scheduler.sequences_max;
  config.engine.tokens_per_step_max = config.scheduler.tokens_per_step;
  auto engine = model::make_cpu_engine(
      std::make_shared<const model::Checkpoint>(std::move(*opened)), config.engine);
  if (!engine.ok()) return engine.error();
  return ServedModel{std::move(*engine), std::move(*tokenizer)};
}

}  // namespace splitwave::serve
