// The gate's JSON and text, and solo runs as files.
#include <nlohmann/json.hpp>

#include "base/json_writer.h"
#include "load/canary.h"

namespace splitwave::load {
namespace {

using Json = nlohmann::json;

constexpr int k_solo_version = 1;

void write_pair(JsonWriter* json, const char* name, int solo, int crowd) {
  json->key(name).begin_object();
  json->field("solo", solo).field("crowd", crowd);
  json->end_object();
}

void write_texts(JsonWriter* json, const char* name, const std::vector<std::string>& texts) {
  json->key(name).begin_array();
  for (const std::string& text : texts) json->value(text);
  json->end_array();
}

}  // namespace

std::string solo_json(const SoloRun& solo, std::uint64_t seed) {
  Json sessions = Json::array();
  for (const auto& turns : solo.sessions) {
    Json list = Json::array();
    for (const TurnOutput& turn : turns) {
      list.push_back({{"text", turn.text},
                      {"tokens", turn.tokens},
                      {"logit_hashes", turn.logit_hashes},
                      {"prompt_tokens", turn.prompt_tokens},
                      {"tool_calls", turn.tool_calls},
                      {"bad_tool_calls", turn.bad_tool_calls}});
    }
    sessions.push_back(std::move(list));
  }
  return Json{{"version", k_solo_version},
              {"seed", seed},
              {"seconds", solo.seconds},
              {"sessions", std::move(sessions)}}
             .dump() +
         "\n";
}

Expected<SoloRun> read_solo_json(const std::string& text, const std::string& name,
                                 const std::vector<CanarySession>& sessions, std::uint64_t seed) {
  SoloRun solo;
  try {
    const Json json = Json::parse(text);
    if (json.at("version") != k_solo_version || json.at("seed") != seed) {
      return bad_input(name + ": version or seed of another run; make the solo run again");
    }
    solo.seconds = json.at("seconds");
    if (json.at("sessions").size() != sessions.size()) {
      return bad_input(name + ": " + std::to_string(json.at("sessions").size()) +
                       " sessions, this run has " + std::to_string(sessions.size()));
    }
    for (const Json& list : json.at("sessions")) {
      std::vector<TurnOutput> turns;
      for (const Json& turn : list) {
        TurnOutput out;
        out.text = turn.at("text");
        out.tokens = turn.at("tokens").get<std::vector<std::int32_t>>();
        out.logit_hashes = turn.at("logit_hashes").get<std::vector<std::string>>();
        out.prompt_tokens = turn.at("prompt_tokens");
        out.tool_calls = turn.at("tool_calls");
        out.bad_tool_calls = turn.at("bad_tool_calls");
        turns.push_back(std::move(out));
      }
      if (turns.size() != sessions[solo.sessions.size()].turns.size()) {
        return bad_input(name + ": a session with another number of turns");
      }
      solo.sessions.push_back(std::move(turns));
    }
  } catch (const Json::exception& e) {
    return bad_input(name + ": no solo run: " + e.what());
  }
  return solo;
}

std::string canary_json(const CanaryReport& r) {
  JsonWriter json;
  json.begin_object();
  json.field("passed", r.passed());
  json.field("sessions", r.sessions).field("concurrency", r.concurrency);
  json.field("turns", r.turns).field("steps", r.steps).field("level", r.level);
  json.field("corrupted", r.corrupted).field("corrupted_needles", r.corrupted_needles);
  json.field("other_tokens", r.other_tokens);
  json.field("forced_turns", r.forced_turns);
  json.field("forced_steps_differing", r.forced_steps_differing);
  json.field("unjudged", r.unjudged);
  json.field("upper_bound_95", r.upper_bound_95);
  json.key("first_divergence");
  if (r.first_divergence) {
    const Divergence& d = *r.first_divergence;
    json.begin_object();
    json.field("session", d.session).field("session_id", d.session_id);
    json.field("turn", d.turn).field("step", d.step);
    json.key("layer");
    if (d.layer) {
      json.value(*d.layer);
    } else {
      json.null();
    }
    json.field("level", d.level).field("solo", d.solo).field("crowd", d.crowd);
    json.end_object();
  } else {
    json.null();
  }
  write_texts(&json, "leaks", r.leaks);
  write_texts(&json, "errors", r.errors);
  write_pair(&json, "tool_calls", r.solo_tool_calls, r.crowd_tool_calls);
  write_pair(&json, "bad_tool_calls", r.solo_bad_tool_calls, r.crowd_bad_tool_calls);
  write_pair(&json, "echoes", r.solo_echoes, r.crowd_echoes);
  write_pair(&json, "needles", r.solo_needles, r.crowd_needles);
  json.field("solo_s", r.solo_s).field("crowd_s", r.crowd_s);
  json.end_object();
  return json.str();
}

std::string canary_text(const CanaryReport& r) {
  char line[400];
  std::string out;
  std::snprintf(line, sizeof line,
                "%s: %d of %d sessions corrupted at C%d (%d turns, %lld steps, compared by %s; "
                "at most %.2f %% with 95 %% confidence)\n",
                r.passed() ? "passed" : "FAILED", r.corrupted, r.sessions, r.concurrency, r.turns,
                static_cast<long long>(r.steps), r.level.c_str(), 100 * r.upper_bound_95);
  out += line;
  if (r.first_divergence) {
    const Divergence& d = *r.first_divergence;
    out += "first divergence: session " + std::to_string(d.session) + " (" + d.session_id +
           "), turn " + std::to_string(d.turn) + ", step " + std::to_string(d.step) + ", " +
           d.level + ": solo " + d.solo + ", crowd " + d.crowd + "\n";
  }
  for (const std::string& leak : r.leaks) out += "leak: " + leak + "\n";
  for (const std::string& error : r.errors) out += "unjudged: " + error + "\n";
  std::snprintf(line, sizeof line,
                "solo / crowd: tool calls %d / %d, bad %d / %d; echoes %d / %d; needles %d / %d; "
                "%.1f s / %.1f s\n",
                r.solo_tool_calls, r.crowd_tool_calls, r.solo_bad_tool_calls,
                r.crowd_bad_tool_calls, r.solo_echoes, r.crowd_echoes, r.solo_needles,
                r.crowd_needles, r.solo_s, r.crowd_s);
  return out + line;
}

}  // namespace splitwave::load
