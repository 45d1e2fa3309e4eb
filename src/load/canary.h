// The corruption gate: is any output bit of a request decided by something other than the request?
// Owns the solo run, the crowd run, their comparison and the verdict; called by `splitwave canary`
// and its tests. Against any OpenAI-compatible server it compares text; with the extensions
// return_token_ids and logit_hashes of our server, tokens and the hash of every step's logits.
//
// A session's history is always made of its solo outputs, so that one divergence does not make all
// later turns differ: each turn is judged on its own prompt.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "load/canary_sessions.h"
#include "load/load_run.h"
#include "splitwave/status.h"

namespace splitwave::load {

struct CanaryOptions {
  LoadTarget target;
  int concurrency = 96;
  int output_tokens = 16;  // of a turn
  double request_timeout_s = 600;
  bool stops_at_first = false;  // a divergence ends the crowd run
};

// What a server answered to one turn.
struct TurnOutput {
  std::string text;                       // content and tool calls, as the API gives them
  std::vector<std::int32_t> tokens;       // empty: the server has no return_token_ids
  std::vector<std::string> logit_hashes;  // a step each; empty: no logit_hashes
  int prompt_tokens = 0;
  int tool_calls = 0;
  int bad_tool_calls = 0;  // an unknown name, or arguments that are no JSON object
  bool operator==(const TurnOutput&) const = default;
};

struct SoloRun {
  std::vector<std::vector<TurnOutput>> sessions;  // [session][turn]
  double seconds = 0;
};

struct Divergence {
  int session = 0;
  std::string session_id;
  int turn = 0;
  int step = 0;              // of the turn's output
  std::optional<int> layer;  // where the server tells
  std::string level;         // "logits", "tokens" or "text"
  std::string solo, crowd;   // what each has there
};

struct CanaryReport {
  int sessions = 0;
  int concurrency = 0;
  int turns = 0;
  std::int64_t steps = 0;           // output tokens compared
  std::string level;                // the finest comparison that the server allows
  int corrupted = 0;                // sessions with any difference
  int corrupted_needles = 0;        // the same of needles, which are not among the sessions
  int other_tokens = 0;             // of them, those whose tokens or text differ
  int unjudged = 0;                 // sessions and needles that the server did not answer
  std::vector<std::string> errors;  // a few
  // Turns that differed, sent again in the crowd with the solo tokens forced, so that every step
  // has the solo run's inputs; and the steps whose logits still differ.
  int forced_turns = 0;
  std::int64_t forced_steps_differing = 0;
  std::optional<Divergence> first_divergence;
  std::vector<std::string> leaks;  // "session 3 shows the identifier of session 7"
  int solo_bad_tool_calls = 0, crowd_bad_tool_calls = 0;
  int solo_tool_calls = 0, crowd_tool_calls = 0;
  int solo_echoes = 0, crowd_echoes = 0;    // sessions that give their identifier back
  int solo_needles = 0, crowd_needles = 0;  // needles found
  double upper_bound_95 = 1;                // of the share of corrupted sessions, exact binomial
  double solo_s = 0, crowd_s = 0;

  // No difference, no leak, nothing unjudged, no rate below the solo run's.
  [[nodiscard]] bool passed() const;
};

// done, of all: called after each turn.
using CanaryProgress = std::function<void(int done, int all)>;

// One request at a time.
[[nodiscard]] Expected<SoloRun> run_solo(const std::vector<CanarySession>& sessions,
                                         const CanaryOptions& options,
                                         const CanaryProgress& progress);

// concurrency sessions at a time. Fewer sessions than that are replayed by several lanes, so that
// the crowd is as large as asked.
[[nodiscard]] Expected<CanaryReport> run_crowd(const std::vector<CanarySession>& sessions,
                                               const SoloRun& solo, const CanaryOptions& options,
                                               const CanaryProgress& progress);

// A solo run as JSON, to be judged against by later runs on the same conversations.
[[nodiscard]] std::string solo_json(const SoloRun& solo, std::uint64_t seed);
[[nodiscard]] Expected<SoloRun> read_solo_json(const std::string& text, const std::string& name,
                                               const std::vector<CanarySession>& sessions,
                                               std::uint64_t seed);

[[nodiscard]] std::string canary_json(const CanaryReport& report);
[[nodiscard]] std::string canary_text(const CanaryReport& report);

}  // namespace splitwave::load
