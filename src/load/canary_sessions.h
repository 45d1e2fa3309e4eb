// The conversations that the corruption gate replays: real multi-turn tool sessions (BFCL v4, the
// embedded canary_sessions.json), each with an opaque identifier of its own, and needles in long
// texts. Owns their construction; called by the gate and its tests. The same seed gives the same
// conversations everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "splitwave/status.h"

namespace splitwave::load {

// The text of canary_sessions.json.
[[nodiscard]] std::string_view canary_sessions_json();

inline constexpr int k_canary_needle_words_min = 256;

struct CanarySession {
  std::string id;
  std::string identifier;          // opaque; no other session's output may hold it
  std::string system;              // first message
  std::vector<std::string> tools;  // JSON text of each function
  std::vector<std::string> names;  // of the functions
  std::vector<std::string> calls;  // what the recorded session called, in order
  std::vector<std::string> turns;  // the user's
  std::string expected;            // what the last turn asks for: the identifier, or the needle
  bool is_needle = false;
  bool is_sampled = false;  // temperature 1 with a seed of its own; else greedy
  std::uint64_t sampling_seed = 0;
};

// The first `sessions` tool sessions (1 to 240) and then `needles` needles, in texts of 256 words
// and more. Identifiers come from seed.
[[nodiscard]] Expected<std::vector<CanarySession>> canary_sessions(int sessions, int needles,
                                                                   std::uint64_t seed);

}  // namespace splitwave::load
