// The server as one object: engine loop, API and HTTP put together in the order in which they may
// start and must stop. Owns Server. Called by `splitwave serve` and by tests, which bring an
// engine.
#pragma once

#include <memory>
#include <string>

#include "model/engine.h"
#include "serve/server_config.h"
#include "serve/tokenizer.h"
#include "splitwave/status.h"

namespace splitwave::serve {

class Server {
 public:
  // Listens when it returns. version: of the build, for /version and /config.
  [[nodiscard]] static Expected<std::unique_ptr<Server>> start(
      const ServerConfig& config, std::unique_ptr<model::Engine> engine, Tokenizer tokenizer,
      const std::string& version);
  virtual ~Server() = default;

  [[nodiscard]] virtual int port() const = 0;
  // Refuses new generations, waits up to drain_s for those under way, then ends the rest.
  // True: nothing had to be ended.
  virtual bool drain_and_stop() = 0;
};

// What a served checkpoint is made of.
struct ServedModel {
  std::unique_ptr<model::Engine> engine;
  Tokenizer tokenizer;
};

// Opens config.model, or makes the embedded tiny one under state_dir (empty: a folder of the
// temporary directory) and sets config.model to it. bad_input lists a checkpoint's problems.
[[nodiscard]] Expected<ServedModel> load_served_model(ServerConfig& config,
                                                      const std::string& state_dir);

}  // namespace splitwave::serve
