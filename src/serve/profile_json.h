// /profile and `splitwave profile`: where the time of steps goes, as JSON. Called on the thread
// that owns the engine.
#pragma once

#include <deque>
#include <string>

#include "model/engine.h"
#include "serve/engine_loop.h"

namespace splitwave::serve {

// operators[]{name, calls, seconds, share} since the last call, device{} from the engine's
// description and this process's CPU time, steps[] rows of steps_columns.
[[nodiscard]] std::string profile_json(model::Engine& engine,
                                       const std::deque<StepSample>& samples);

}  // namespace splitwave::serve
