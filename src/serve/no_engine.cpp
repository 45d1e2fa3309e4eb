// Stands in for the decode engine where src/model has none to build: `serve` and `profile` then say
// what is missing (exit status 3). CMakeLists.txt takes this file only in that case.
#include "model/engine.h"

namespace splitwave::model {

Expected<std::unique_ptr<Engine>> make_cpu_engine(std::shared_ptr<const Checkpoint> /*checkpoint*/,
                                                  const EngineOptions& /*options*/) {
  return environment_error(
      "this build has no decode engine (src/model does not define make_cpu_engine); the server and "
      "its API are built and tested without one");
}

}  // namespace splitwave::model
