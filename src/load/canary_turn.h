// One turn of a canary conversation as HTTP bodies. Owns the request's JSON and the reading of the
// answer; called by the gate. It compares nothing.
#pragma once

#include <string>
#include <vector>

#include "load/canary.h"

namespace splitwave::load {

// The body of turn `turn`, after the solo outputs of the turns before it. forced: the tokens that
// the output must take, or empty.
[[nodiscard]] std::string canary_request(const CanarySession& session,
                                         const std::vector<TurnOutput>& before, std::size_t turn,
                                         const CanaryOptions& options,
                                         const std::vector<std::int32_t>& forced = {});

// bad_input: the answer is no chat completion.
[[nodiscard]] Expected<TurnOutput> read_canary_answer(const std::string& body,
                                                      const CanarySession& session);

}  // namespace splitwave::load
