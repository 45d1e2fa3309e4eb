// Chunks of /v1/completions and /v1/chat/completions alike.
#include "load/stream_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace splitwave::load {
namespace {

using Json = nlohmann::json;

constexpr std::size_t k_error_bytes_max = 300;

// Whether a choice carries output: text, a piece of a message, or token ids of a server that sends
// them before their text is complete.
bool carries_output(const Json& choice) {
  if (const auto text = choice.find("text"); text != choice.end() && text->is_string()) {
    if (!text->get_ref<const std::string&>().empty()) return true;
  }
  const auto delta = choice.find("delta");
  if (delta != choice.end() && delta->is_object()) {
    for (const char* key : {"content", "reasoning_content", "reasoning"}) {
      const auto piece = delta->find(key);
      if (piece != delta->end() && piece->is_string() && *piece != "") return true;
    }
    if (const auto calls = delta->find("tool_calls"); calls != delta->end() && !calls->empty()) {
      return true;
    }
  }
  const auto ids = choice.find("token_ids");
  return ids != choice.end() && ids->is_array() && !ids->empty();
}

int count(const Json& usage, const char* key) {
  const auto value = usage.find(key);
  return value != usage.end() && value->is_number_integer() ? value->get<int>() : 0;
}

}  // namespace

void StreamReader::on_body(std::string_view bytes, double now_s) {
  if (first_bytes_.size() < k_error_bytes_max) {
    first_bytes_ += bytes.substr(0, k_error_bytes_max - first_bytes_.size());
  }
  std::vector<std::string> events;
  sse_.push(bytes, &events);
  for (const std::string& data : events) on_event(data, now_s);
}

void StreamReader::on_event(const std::string& data, double now_s) {
  if (data == "[DONE]") return;
  const Json json = Json::parse(data, nullptr, false);
  if (!json.is_object()) {
    record_.error = "an event that is no JSON object";
    return;
  }
  if (const auto error = json.find("error"); error != json.end() && !error->is_null()) {
    record_.error = error->dump().substr(0, k_error_bytes_max);
  }
  if (const auto usage = json.find("usage"); usage != json.end() && usage->is_object()) {
    has_usage_ = true;
    record_.prompt_tokens = count(*usage, "prompt_tokens");
    record_.output_tokens = count(*usage, "completion_tokens");
    const auto details = usage->find("prompt_tokens_details");
    if (details != usage->end() && details->is_object()) {
      record_.cached_tokens = count(*details, "cached_tokens");
    }
  }
  const auto choices = json.find("choices");
  if (choices == json.end() || !choices->is_array() || choices->empty()) return;
  const Json& choice = choices->front();
  if (!choice.is_object()) return;
  if (carries_output(choice)) record_.events_s.push_back(now_s);
  const auto reason = choice.find("finish_reason");
  if (reason == choice.end() || !reason->is_string()) return;
  has_finish_ = true;
  if (*reason != "stop" && *reason != "length" && *reason != "tool_calls") {
    record_.error = "finish_reason " + reason->dump();
  }
}

StreamRecord StreamReader::finish(const HttpEnd& end, double now_s) {
  record_.end_s = now_s;
  if (!end.error.empty()) {
    record_.error = end.error;
  } else if (end.status != 200) {
    record_.error = "HTTP " + std::to_string(end.status) + ": " + first_bytes_;
  } else if (record_.error.empty() && !has_finish_) {
    record_.error = "the stream ended without a finish_reason";
  } else if (record_.error.empty() && !has_usage_) {
    record_.error = "the stream has no usage; the server must honour stream_options.include_usage";
  } else if (record_.error.empty() && record_.output_tokens > 0 && record_.events_s.empty()) {
    record_.events_s.push_back(now_s);  // every token was without text
  }
  return std::move(record_);
}

}  // namespace splitwave::load
