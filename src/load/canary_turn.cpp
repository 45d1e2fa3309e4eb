// /v1/chat/completions, not streamed: the gate wants whole outputs.
#include "load/canary_turn.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace splitwave::load {
namespace {

using Json = nlohmann::ordered_json;

// A tool call as the recorded session made it, with a neutral result: what the tool returned is not
// recorded.
void append_call(const CanarySession& session, std::size_t turn, Json* assistant, Json* messages) {
  const std::string id = "call_" + std::to_string(turn);
  if (turn < session.calls.size()) {
    (*assistant)["tool_calls"] =
        Json::array({{{"id", id},
                      {"type", "function"},
                      {"function", {{"name", session.calls[turn]}, {"arguments", "{}"}}}}});
  }
  messages->push_back(std::move(*assistant));
  if (turn < session.calls.size()) {
    messages->push_back(
        {{"role", "tool"}, {"tool_call_id", id}, {"content", R"({"status": "ok"})"}});
  }
}

void read_tool_calls(const Json& message, const CanarySession& session, TurnOutput* out) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (const Json& call : *calls) {
    ++out->tool_calls;
    const Json function = call.is_object() ? call.value("function", Json()) : Json();
    const Json name = function.is_object() ? function.value("name", Json()) : Json();
    const Json arguments = function.is_object() ? function.value("arguments", Json()) : Json();
    const bool is_known = name.is_string() && std::find(session.names.begin(), session.names.end(),
                                                        name) != session.names.end();
    const bool is_object =
        arguments.is_string() &&
        Json::parse(arguments.get_ref<const std::string&>(), nullptr, false).is_object();
    if (!is_known || !is_object) ++out->bad_tool_calls;
    out->text += "\n" + name.dump() + arguments.dump();  // the id is the server's invention
  }
}

}  // namespace

std::string canary_request(const CanarySession& session, const std::vector<TurnOutput>& before,
                           std::size_t turn, const CanaryOptions& options,
                           const std::vector<std::int32_t>& forced) {
  Json messages = Json::array({{{"role", "system"}, {"content", session.system}}});
  for (std::size_t t = 0; t <= turn; ++t) {
    messages.push_back({{"role", "user"}, {"content", session.turns[t]}});
    if (t == turn) break;
    Json assistant = {{"role", "assistant"}, {"content", before[t].text}};
    append_call(session, t, &assistant, &messages);
  }
  Json body = {{"model", options.target.model},
               {"messages", std::move(messages)},
               {"max_tokens", options.output_tokens},
               {"temperature", session.is_sampled ? 1 : 0},
               {"ignore_eos", true},
               {"return_token_ids", true},
               {"logit_hashes", true}};
  if (!forced.empty()) body["forced_token_ids"] = forced;
  if (session.is_sampled) body["seed"] = session.sampling_seed;
  Json tools = Json::array();
  for (const std::string& tool : session.tools) {
    tools.push_back({{"type", "function"}, {"function", Json::parse(tool)}});
  }
  if (!tools.empty()) body["tools"] = std::move(tools);
  return body.dump();
}

Expected<TurnOutput> read_canary_answer(const std::string& body, const CanarySession& session) {
  const Json json = Json::parse(body, nullptr, false);
  const auto choices = json.find("choices");
  if (!json.is_object() || choices == json.end() || !choices->is_array() || choices->empty() ||
      !choices->front().is_object()) {
    return bad_input("the answer has no choices: " + body.substr(0, 200));
  }
  const Json& choice = choices->front();
  const auto message = choice.find("message");
  if (message == choice.end() || !message->is_object()) {
    return bad_input("choices[0].message is missing: " + body.substr(0, 200));
  }
  TurnOutput out;
  for (const char* key : {"reasoning_content", "content"}) {
    const auto text = message->find(key);
    if (text != message->end() && text->is_string()) out.text += text->get<std::string>();
  }
  read_tool_calls(*message, session, &out);
  if (const auto ids = choice.find("token_ids"); ids != choice.end() && ids->is_array()) {
    for (const Json& id : *ids) {
      if (id.is_number_integer()) out.tokens.push_back(id.get<std::int32_t>());
    }
  }
  if (const auto hashes = choice.find("logit_hashes"); hashes != choice.end()) {
    for (const Json& hash : *hashes)
      out.logit_hashes.push_back(hash.is_string() ? hash.get<std::string>() : hash.dump());
  }
  if (const auto usage = json.find("usage"); usage != json.end() && usage->is_object()) {
    const auto tokens = usage->find("prompt_tokens");
    if (tokens != usage->end() && tokens->is_number_integer())
      out.prompt_tokens = tokens->get<int>();
  }
  return out;
}

}  // namespace splitwave::load
