// `splitwave profile`: steps run in this process for their operator times. Owns the decode loop
// that is measured; called by the command line.
#pragma once

#include <string>

#include "model/engine.h"
#include "splitwave/status.h"

namespace splitwave::serve {

struct ProfileOptions {
  int batch = 8;
  int context_tokens = 256;  // of each sequence before the measured steps
  int steps = 16;
  std::uint64_t seed = 1;
};

// batch sequences of random tokens, prefilled, then steps decode steps; the JSON is profile_json's,
// its operators those of the decode steps alone.
[[nodiscard]] Expected<std::string> profile_engine(model::Engine& engine,
                                                   const ProfileOptions& options,
                                                   int tokens_per_step);

}  // namespace splitwave::serve
