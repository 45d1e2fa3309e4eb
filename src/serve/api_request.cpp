// Field by field: type, range, and what is not supported, said with the field's name.
#include "serve/api_request.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/nearest_name.h"
#include "serve/utf8.h"

namespace splitwave::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr int k_body_depth_max = 96;  // a tool schema's own bound is k_json_depth_max

// Brackets outside strings: refused before the parser builds anything deep.
bool is_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > k_body_depth_max) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

// Typed access to the body's fields. The first problem is kept; later calls do nothing.
class Body {
 public:
  explicit Body(const Json& json) : json_(json) {}

  [[nodiscard]] bool ok() const { return !error_.has_value(); }
  [[nodiscard]] const ApiError& error() const { return *error_; }
  void refuse(const std::string& name, const std::string& message) {
    if (ok()) error_ = field_error(name, message);
  }
  void refuse(ApiError error) {
    if (ok()) error_ = std::move(error);
  }

  // Null counts as absent, as in OpenAI's API.
  [[nodiscard]] const Json* find(const std::string& name) {
    known_.push_back(name);
    const auto at = json_.find(name);
    return at == json_.end() || at->is_null() ? nullptr : &*at;
  }

  void read(const std::string& name, bool& value) {
    const Json* j = find(name);
    if (j == nullptr) return;
    if (!j->is_boolean()) return refuse(name, "expected true or false");
    value = j->get<bool>();
  }

  void read(const std::string& name, int& value, int low, int high) {
    const Json* j = find(name);
    if (j == nullptr) return;
    const std::string range = std::to_string(low) + ".." + std::to_string(high);
    if (!j->is_number_integer()) return refuse(name, "expected an integer, " + range);
    // An unsigned value above int64 must not wrap into the range.
    const bool is_huge =
        j->is_number_unsigned() && j->get<std::uint64_t>() > static_cast<std::uint64_t>(high);
    if (is_huge || j->get<std::int64_t>() < low || j->get<std::int64_t>() > high) {
      return refuse(name, j->dump() + " is outside " + range);
    }
    value = static_cast<int>(j->get<std::int64_t>());
  }

  void read(const std::string& name, double& value, double low, double high) {
    const Json* j = find(name);
    if (j == nullptr) return;
    if (!j->is_number()) return refuse(name, "expected a number");
    const double v = j->get<double>();
    if (!(v >= low && v <= high)) {
      return refuse(name, j->dump() + " is outside " + Json(low).dump() + ".." + Json(high).dump());
    }
    value = v;
  }

  // Fields whose only supported values are given as JSON; anything else is refused.
  void only(const std::string& name, const std::vector<Json>& neutral) {
    const Json* j = find(name);
    if (j == nullptr) return;
    if (std::find(neutral.begin(), neutral.end(), *j) != neutral.end()) return;
    std::string list;
    for (const Json& n : neutral) list += (list.empty() ? "" : " or ") + n.dump();
    refuse(name, "not supported; leave it out" + (list.empty() ? "" : " or send " + list));
  }

  // Accepted and without effect on the output.
  void ignore(std::initializer_list<const char*> names) {
    for (const char* name : names) known_.emplace_back(name);
  }

  void check_unknown() {
    if (!ok()) return;
    std::vector<std::string_view> names(known_.begin(), known_.end());
    for (const auto& [name, value] : json_.items()) {
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      return refuse(name, "unknown field" + did_you_mean(name, names));
    }
  }

 private:
  const Json& json_;
  std::vector<std::string> known_;
  std::optional<ApiError> error_;
};

void read_token_ids(Body& body, const std::string& name, const Json& array, const ApiLimits& limits,
                    std::vector<std::int32_t>& ids) {
  if (array.size() > static_cast<std::size_t>(limits.context_tokens_max)) {
    return body.refuse(name, std::to_string(array.size()) + " tokens; at most " +
                                 std::to_string(limits.context_tokens_max));
  }
  ids.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) {
    const Json& item = array[i];
    const bool is_id = item.is_number_integer() && item.get<std::int64_t>() >= 0 &&
                       item.get<std::int64_t>() < limits.vocab_size;
    if (!is_id) {
      return body.refuse(name, "[" + std::to_string(i) + "]: expected a token id, 0.." +
                                   std::to_string(limits.vocab_size - 1));
    }
    ids.push_back(static_cast<std::int32_t>(item.get<std::int64_t>()));
  }
}

void read_prompt(Body& body, const ApiLimits& limits, ApiRequest& request) {
  const Json* prompt = body.find("prompt");
  if (prompt == nullptr) return body.refuse("prompt", "required: a string or a list of token ids");
  if (prompt->is_string()) {
    request.prompt_text = prompt->get<std::string>();
    if (request.prompt_text.empty()) body.refuse("prompt", "must not be empty");
    return;
  }
  if (prompt->is_array() && prompt->size() == 1 && (*prompt)[0].is_string()) {
    request.prompt_text = (*prompt)[0].get<std::string>();
    if (request.prompt_text.empty()) body.refuse("prompt", "must not be empty");
    return;
  }
  const Json* ids = prompt;
  if (prompt->is_array() && prompt->size() == 1 && (*prompt)[0].is_array()) ids = &(*prompt)[0];
  if (!ids->is_array() || ids->empty() || !(*ids)[0].is_number()) {
    return body.refuse("prompt", "expected a string or a list of token ids; one prompt a request");
  }
  read_token_ids(body, "prompt", *ids, limits, request.prompt_ids);
}

// The part of the template that a client may choose: thinking on or off, and the effort.
void read_thinking(Body& body, ApiRequest& request) {
  if (const Json* kwargs = body.find("chat_template_kwargs")) {
    if (!kwargs->is_object()) return body.refuse("chat_template_kwargs", "expected an object");
    for (const auto& [name, value] : kwargs->items()) {
      if ((name == "thinking" || name == "enable_thinking") && value.is_boolean()) {
        request.chat.thinking = value.get<bool>();
      } else {
        return body.refuse("chat_template_kwargs." + name, "only thinking: true or false");
      }
    }
  }
  const Json* effort = body.find("reasoning_effort");
  if (effort == nullptr) return;
  const std::string text = effort->is_string() ? effort->get<std::string>() : "";
  if (text == "none") {
    request.chat.thinking = false;
  } else if (text == "high" || text == "max") {
    request.chat.thinking = true;
    request.chat.effort = text == "max" ? ReasoningEffort::max : ReasoningEffort::high;
  } else if (text == "minimal" || text == "low" || text == "medium") {
    request.chat.thinking = true;
  } else {
    body.refuse("reasoning_effort", "expected none, minimal, low, medium, high or max");
  }
}

// The tools' JSON texts, or nothing when tool_choice is "none".
std::vector<std::string> read_tools(Body& body) {
  const Json* tools = body.find("tools");
  const Json* choice = body.find("tool_choice");
  const bool chooses_none = choice != nullptr && *choice == "none";
  if (choice != nullptr && *choice != "auto" && !chooses_none) {
    body.refuse("tool_choice", "expected \"auto\" or \"none\"; a call cannot be forced");
  }
  body.only("parallel_tool_calls", {true});
  body.only("functions", {});
  body.only("function_call", {});
  if (tools == nullptr || !body.ok()) return {};
  if (!tools->is_array()) {
    body.refuse("tools", "expected an array");
    return {};
  }
  auto read = read_chat_tools(*tools);
  if (!read.ok()) {
    ApiError error;
    error.message = read.error().message;
    error.param = "tools";
    body.refuse(std::move(error));
    return {};
  }
  return chooses_none ? std::vector<std::string>() : std::move(*read);
}

// "messages[3].role: ..." -> messages[3].role
std::string leading_field(const std::string& message) {
  const std::size_t colon = message.find(':');
  const std::string field = message.substr(0, colon);
  return colon == std::string::npos || field.find(' ') != std::string::npos ? "messages" : field;
}

void read_chat(Body& body, ApiRequest& request) {
  read_thinking(body, request);
  std::vector<std::string> tools = read_tools(body);
  body.only("response_format", {Json{{"type", "text"}}});
  const Json* messages = body.find("messages");
  if (messages == nullptr) return body.refuse("messages", "required: an array of messages");
  if (!messages->is_array() || messages->empty()) {
    return body.refuse("messages", "expected an array of at least one message");
  }
  if (!body.ok()) return;
  auto read = read_chat_messages(*messages);
  if (!read.ok()) {
    ApiError error;
    error.message = read.error().message;
    error.param = leading_field(error.message);
    return body.refuse(std::move(error));
  }
  request.messages = std::move(*read);
  request.has_tools = !tools.empty();
  if (request.has_tools) {
    attach_tools(&request.messages, std::move(tools));
    request.chat.drop_thinking = false;
  }
}

void read_stop(Body& body, ApiRequest& request) {
  const Json* stop = body.find("stop");
  if (stop == nullptr) return;
  if (stop->is_string()) {
    request.stop.push_back(stop->get<std::string>());
  } else if (stop->is_array()) {
    for (const Json& item : *stop) {
      if (!item.is_string()) return body.refuse("stop", "expected a string or an array of strings");
      request.stop.push_back(item.get<std::string>());
      if (request.stop.size() > k_stop_strings_max) break;
    }
  } else {
    return body.refuse("stop", "expected a string or an array of strings");
  }
  if (request.stop.size() > k_stop_strings_max) {
    return body.refuse("stop", "at most " + std::to_string(k_stop_strings_max) + " strings");
  }
  for (const std::string& s : request.stop) {
    if (s.empty() || s.size() > k_stop_bytes_max) {
      return body.refuse("stop",
                         "each string has 1.." + std::to_string(k_stop_bytes_max) + " bytes");
    }
  }
}

void read_logprobs(Body& body, ApiRequest& request) {
  if (!request.is_chat) {
    int count = -1;
    body.read("logprobs", count, 0, k_top_logprobs_max);
    request.sampling.top_logprobs = count;
  } else {
    bool wants = false;
    int count = 0;
    body.read("logprobs", wants);
    body.read("top_logprobs", count, 0, k_top_logprobs_max);
    if (count > 0 && !wants) body.refuse("top_logprobs", "needs logprobs: true");
    request.sampling.top_logprobs = wants ? count : -1;
  }
  request.wants_logprobs = request.sampling.top_logprobs >= 0;
}

void read_sampling(Body& body, const ApiLimits& limits, ApiRequest& request) {
  body.read("temperature", request.sampling.temperature, 0, 2);
  body.read("top_p", request.sampling.top_p, 0, 1);
  if (const Json* seed = body.find("seed")) {
    if (seed->is_number_integer()) {
      request.has_seed = true;
      request.sampling.seed = seed->is_number_unsigned()
                                  ? seed->get<std::uint64_t>()
                                  : static_cast<std::uint64_t>(seed->get<std::int64_t>());
    } else {
      body.refuse("seed", "expected an integer");
    }
  }
  body.read("max_tokens", request.max_tokens, 1, limits.output_tokens_max);
  if (request.is_chat) {
    body.read("max_completion_tokens", request.max_tokens, 1, limits.output_tokens_max);
  } else if (request.max_tokens == 0) {
    request.max_tokens = 16;  // OpenAI's default for completions
  }
  body.read("min_tokens", request.sampling.min_tokens, 0, limits.output_tokens_max);
  if (request.max_tokens > 0 && request.sampling.min_tokens > request.max_tokens) {
    body.refuse("min_tokens", "more than max_tokens");
  }
  body.read("ignore_eos", request.sampling.ignore_eos);
  body.only("n", {1});
  body.only("best_of", {1});
  body.only("presence_penalty", {0, 0.0});
  body.only("frequency_penalty", {0, 0.0});
  body.only("repetition_penalty", {1, 1.0});
  body.only("top_k", {0, -1});
  body.only("min_p", {0, 0.0});
  body.only("logit_bias", {Json::object()});
  body.only("echo", {false});
  body.only("suffix", {""});
}

void read_extensions(Body& body, const ApiLimits& limits, ApiRequest& request) {
  body.read("return_token_ids", request.returns_token_ids);
  body.read("logit_hashes", request.sampling.hashes_logits);
  if (const Json* forced = body.find("forced_token_ids")) {
    if (!forced->is_array()) return body.refuse("forced_token_ids", "expected a list of token ids");
    read_token_ids(body, "forced_token_ids", *forced, limits, request.forced_token_ids);
  }
}

void read_stream(Body& body, ApiRequest& request) {
  body.read("stream", request.stream);
  const Json* options = body.find("stream_options");
  if (options == nullptr) return;
  if (!request.stream) return body.refuse("stream_options", "needs stream: true");
  if (!options->is_object()) return body.refuse("stream_options", "expected an object");
  for (const auto& [name, value] : options->items()) {
    if (name == "include_usage" && value.is_boolean()) {
      request.include_usage = value.get<bool>();
    } else if (name != "include_obfuscation") {
      return body.refuse("stream_options." + name, "only include_usage: true or false");
    }
  }
}

void read_model(Body& body, const ApiLimits& limits) {
  const Json* model = body.find("model");
  if (model == nullptr) return;
  if (!model->is_string()) return body.refuse("model", "expected a string");
  if (*model == limits.model_name) return;
  ApiError error;
  error.status = 404;
  error.param = "model";
  error.code = "model_not_found";
  error.message = "model: '" + model->get<std::string>().substr(0, 200) +
                  "' is not served here; this server has '" + limits.model_name + "'";
  body.refuse(std::move(error));
}

}  // namespace

std::variant<ApiRequest, ApiError> read_api_request(std::string_view text, bool is_chat,
                                                    const ApiLimits& limits) {
  ApiError malformed;
  if (const std::size_t valid = utf8_valid_prefix(text); valid != text.size()) {
    malformed.message = "the body is not UTF-8 at byte " + std::to_string(valid);
    return malformed;
  }
  if (is_too_deep(text)) {
    malformed.message =
        "the body is nested deeper than " + std::to_string(k_body_depth_max) + " levels";
    return malformed;
  }
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& e) {
    malformed.message = std::string("the body is not JSON: ") + e.what();
    return malformed;
  }
  if (!json.is_object()) {
    malformed.message = "the body must be a JSON object";
    return malformed;
  }
  ApiRequest request;
  request.is_chat = is_chat;
  Body body(json);
  read_model(body, limits);
  read_sampling(body, limits, request);
  read_logprobs(body, request);
  read_stop(body, request);
  read_stream(body, request);
  read_extensions(body, limits, request);
  body.ignore({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
               "verbosity"});
  if (is_chat) {
    read_chat(body, request);
  } else {
    read_prompt(body, limits, request);
  }
  body.check_unknown();
  if (!body.ok()) return body.error();
  return request;
}

}  // namespace splitwave::serve
