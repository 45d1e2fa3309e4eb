// Reads the embedded file; writes the needles' texts.
#include "load/canary_sessions.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/random.h"

namespace splitwave::load {
namespace {

using Json = nlohmann::ordered_json;

constexpr int k_needle_length_steps = 4;  // 256, 512, 1024, 2048 words, then again

std::string opaque(Rng* rng) {
  constexpr std::string_view letters = "abcdefghjkmnpqrstuvwxyz23456789";
  std::string out = "id-";
  for (int i = 0; i < 20; ++i) {
    out += letters[rng->below(static_cast<std::uint32_t>(letters.size()))];
  }
  return out;
}

CanarySession tool_session(const Json& entry, const Json& tools, Rng* rng) {
  CanarySession s;
  s.id = entry["id"];
  s.identifier = s.expected = opaque(rng);
  s.system = "You are a helpful assistant. The identifier of this session is " + s.identifier + ".";
  for (const Json& call : entry["calls"]) s.calls.push_back(call);
  for (const Json& tool : tools) {
    const std::string name = tool["name"];
    if (std::find(s.calls.begin(), s.calls.end(), name) == s.calls.end()) continue;
    s.tools.push_back(tool.dump());
    s.names.push_back(name);
  }
  for (const Json& turn : entry["turns"]) s.turns.push_back(turn);
  s.turns.emplace_back("Repeat the identifier of this session and nothing else.");
  return s;
}

CanarySession needle(int number, Rng* rng) {
  constexpr std::array<std::string_view, 16> words = {
      "river",  "stone",  "market", "window", "letter",  "garden", "winter", "signal",
      "copper", "valley", "engine", "paper",  "morning", "bridge", "forest", "harbour"};
  CanarySession s;
  s.id = "needle_" + std::to_string(number);
  s.is_needle = true;
  s.identifier = s.expected = opaque(rng);
  const int length = k_canary_needle_words_min << number % k_needle_length_steps;
  const auto place = static_cast<int>(rng->below(static_cast<std::uint32_t>(length)));
  std::string text;
  for (int i = 0; i < length; ++i) {
    if (i == place) text += "The pass phrase is " + s.expected + ". ";
    text += words[rng->below(words.size())];
    text += i % 12 == 11 ? ". " : " ";
  }
  s.system = "You answer with one word.";
  s.turns.push_back(text + "What is the pass phrase?");
  return s;
}

}  // namespace

Expected<std::vector<CanarySession>> canary_sessions(int sessions, int needles,
                                                     std::uint64_t seed) {
  const Json data = Json::parse(canary_sessions_json(), nullptr, false);
  SPLITWAVE_CHECK(!data.is_discarded(), "the embedded canary sessions are no JSON");
  const auto available = static_cast<int>(data["sessions"].size());
  if (sessions < 1 || sessions > available) {
    return bad_input("sessions: " + std::to_string(sessions) + "; from 1 to " +
                     std::to_string(available));
  }
  std::vector<CanarySession> out;
  Rng rng(seed);
  for (int i = 0; i < sessions; ++i) {
    out.push_back(tool_session(data["sessions"][static_cast<std::size_t>(i)], data["tools"], &rng));
  }
  for (int i = 0; i < needles; ++i) out.push_back(needle(i, &rng));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].is_sampled = i % 2 == 1;
    out[i].sampling_seed = seed + i;
  }
  return out;
}

}  // namespace splitwave::load
