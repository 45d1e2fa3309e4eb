// Tokens in, OpenAI's response objects out.
#include "serve/completion.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "serve/api_error.h"

namespace splitwave::serve {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity; a token that cannot be drawn gets the value that vLLM gives it.
double finite_logprob(float logprob) {
  return std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0;
}

std::string hex16(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

Completion::Completion(const ApiRequest& request, CompletionContext context,
                       std::shared_ptr<Responder> responder)
    : is_chat_(request.is_chat),
      streams_(request.stream),
      include_usage_(request.include_usage),
      wants_logprobs_(request.wants_logprobs),
      returns_token_ids_(request.returns_token_ids),
      hashes_logits_(request.sampling.hashes_logits),
      min_tokens_(request.sampling.min_tokens),
      context_(std::move(context)),
      responder_(std::move(responder)),
      stop_(request.stop),
      parser_({context_.begins_in_thinking, request.has_tools}) {}

bool Completion::on_token(const GeneratedToken& token) {
  note_token(token);
  std::string text;
  if (!token.is_end && !context_.tokenizer->is_special(token.token)) {
    decoder_.push(context_.tokenizer->bytes(token.token), &text);
  }
  std::string visible;
  if (token.index + 1 < min_tokens_) {
    stop_.pass(text, &visible);
  } else {
    is_stopped_ = stop_.push(text, &visible);
  }
  show(visible, false);
  return is_stopped_;
}

void Completion::note_token(const GeneratedToken& token) {
  if (returns_token_ids_) token_ids_.push_back(token.token);
  if (hashes_logits_) hashes_.push_back(hex16(token.logits_hash));
  if (wants_logprobs_) {
    logprob_tokens_.push_back(token);
    logprob_offsets_.push_back(text_bytes_);
    text_bytes_ += context_.tokenizer->bytes(token.token).size();
  }
}

// Text that is final. Streamed at once, together with what the tokens so far bring.
void Completion::show(const std::string& text, bool is_last) {
  if (is_chat_) {
    std::vector<OutputEvent> events;
    if (!text.empty()) parser_.push(text, &events);
    if (is_last) parser_.finish(&events);
    for (const OutputEvent& event : events) {
      const Json delta = delta_of(event);
      apply(event);
      if (streams_ && !delta.is_null()) send_chunk(delta, nullptr);
    }
    if (streams_) text_.clear();
  } else {
    text_ += text;
    if (streams_ && !text_.empty()) {
      Json piece = std::move(text_);
      text_.clear();
      send_chunk(std::move(piece), nullptr);
    }
  }
  const bool has_notes = !token_ids_.empty() || !hashes_.empty() || !logprob_tokens_.empty();
  if (streams_ && has_notes && !is_last) {
    send_chunk(is_chat_ ? Json::object() : Json(""), nullptr);
  }
}

void Completion::apply(const OutputEvent& event) {
  const auto tool = static_cast<std::size_t>(std::max(event.tool, 0));
  switch (event.kind) {
    case OutputEvent::Kind::reasoning:
      reasoning_ += event.text;
      break;
    case OutputEvent::Kind::content:
      text_ += event.text;
      break;
    case OutputEvent::Kind::tool_begin:
      if (tool_calls_.size() <= tool) tool_calls_.resize(tool + 1);
      tool_calls_[tool].name = event.text;
      break;
    case OutputEvent::Kind::tool_arguments:
      if (tool_calls_.size() <= tool) tool_calls_.resize(tool + 1);
      if (!streams_) tool_calls_[tool].arguments += event.text;
      break;
    case OutputEvent::Kind::tool_end:
      break;
  }
}

Json Completion::delta_of(const OutputEvent& event) const {
  switch (event.kind) {
    case OutputEvent::Kind::reasoning:
      return {{"reasoning_content", event.text}};
    case OutputEvent::Kind::content:
      return {{"content", event.text}};
    case OutputEvent::Kind::tool_begin:
      return {
          {"tool_calls", Json::array({{{"index", event.tool},
                                       {"id", call_id(event.tool)},
                                       {"type", "function"},
                                       {"function", {{"name", event.text}, {"arguments", ""}}}}})}};
    case OutputEvent::Kind::tool_arguments:
      return {{"tool_calls",
               Json::array({{{"index", event.tool}, {"function", {{"arguments", event.text}}}}})}};
    case OutputEvent::Kind::tool_end:
      break;
  }
  return nullptr;
}

std::string Completion::call_id(int tool) const {
  return "call_" + context_.id.substr(context_.id.find('-') + 1) + "_" + std::to_string(tool);
}

std::string Completion::token_text(std::int32_t token) const {
  std::string text;
  StreamDecoder decoder;
  decoder.push(context_.tokenizer->bytes(token), &text);
  decoder.finish(&text);
  return text;
}

Json Completion::chat_token_json(std::int32_t token, float logprob) const {
  Json bytes = Json::array();
  for (const char c : context_.tokenizer->bytes(token)) {
    bytes.push_back(static_cast<int>(static_cast<unsigned char>(c)));
  }
  return {{"token", token_text(token)}, {"logprob", finite_logprob(logprob)}, {"bytes", bytes}};
}

Json Completion::take_logprobs() {
  if (!wants_logprobs_) return nullptr;
  Json result;
  if (is_chat_) {
    result["content"] = Json::array();
    for (const GeneratedToken& t : logprob_tokens_) {
      Json entry = chat_token_json(t.token, t.logprob);
      entry["top_logprobs"] = Json::array();
      for (const TokenLogprob& top : t.top) {
        entry["top_logprobs"].push_back(chat_token_json(top.token, top.logprob));
      }
      result["content"].push_back(std::move(entry));
    }
  } else {
    result = {{"tokens", Json::array()},
              {"token_logprobs", Json::array()},
              {"top_logprobs", Json::array()},
              {"text_offset", logprob_offsets_}};
    for (const GeneratedToken& t : logprob_tokens_) {
      result["tokens"].push_back(token_text(t.token));
      result["token_logprobs"].push_back(finite_logprob(t.logprob));
      Json top = Json::object();
      for (const TokenLogprob& alternative : t.top) {
        top[token_text(alternative.token)] = finite_logprob(alternative.logprob);
      }
      result["top_logprobs"].push_back(std::move(top));
    }
  }
  logprob_tokens_.clear();
  logprob_offsets_.clear();
  return result;
}

void Completion::add_extensions(Json& choice) {
  if (returns_token_ids_) choice["token_ids"] = std::exchange(token_ids_, {});
  if (hashes_logits_) choice["logit_hashes"] = std::exchange(hashes_, {});
}

Json Completion::envelope(const char* object) const {
  return {{"id", context_.id},
          {"object", object},
          {"created", context_.created_unix_s},
          {"model", context_.model},
          {"system_fingerprint", context_.fingerprint}};
}

Json Completion::usage_json(const GenerationEnd& end) const {
  return {{"prompt_tokens", end.prompt_tokens},
          {"completion_tokens", end.generated_tokens},
          {"total_tokens", end.prompt_tokens + end.generated_tokens},
          {"prompt_tokens_details", {{"cached_tokens", end.cached_tokens}}}};
}

void Completion::send_event(const Json& json) {
  if (!stream_begun_) {
    stream_begun_ = true;
    responder_->begin_stream("text/event-stream; charset=utf-8");
  }
  responder_->write("data: " + json.dump() + "\n\n");
}

void Completion::send_chunk(Json delta_or_text, const char* finish_reason) {
  Json chunk = envelope(is_chat_ ? "chat.completion.chunk" : "text_completion");
  Json choice = {{"index", 0}};
  if (is_chat_) {
    if (!stream_begun_) {
      Json first = {{"role", "assistant"}};
      if (delta_or_text.empty()) first["content"] = "";
      first.update(delta_or_text);
      delta_or_text = std::move(first);
    }
    choice["delta"] = std::move(delta_or_text);
  } else {
    choice["text"] = std::move(delta_or_text);
  }
  if (!stream_begun_ && returns_token_ids_) choice["prompt_token_ids"] = context_.prompt_ids;
  choice["logprobs"] = logprob_tokens_.empty() ? Json(nullptr) : take_logprobs();
  choice["finish_reason"] = finish_reason == nullptr ? Json(nullptr) : Json(finish_reason);
  add_extensions(choice);
  chunk["choices"] = Json::array({std::move(choice)});
  if (include_usage_) chunk["usage"] = nullptr;
  send_event(chunk);
}

Json Completion::message_json() const {
  Json message = {{"role", "assistant"}};
  message["content"] = text_.empty() && !tool_calls_.empty() ? Json(nullptr) : Json(text_);
  if (!reasoning_.empty()) message["reasoning_content"] = reasoning_;
  if (tool_calls_.empty()) return message;
  message["tool_calls"] = Json::array();
  for (std::size_t i = 0; i < tool_calls_.size(); ++i) {
    message["tool_calls"].push_back(
        {{"id", call_id(static_cast<int>(i))},
         {"type", "function"},
         {"function", {{"name", tool_calls_[i].name}, {"arguments", tool_calls_[i].arguments}}}});
  }
  return message;
}

void Completion::fail(const GenerationEnd& end) {
  ApiError error;
  error.type = "server_error";
  error.message = end.message.empty() ? name_of(end.reason) : end.message;
  error.status = end.reason == FinishReason::timeout     ? 504
                 : end.reason == FinishReason::cancelled ? 503
                                                         : 500;
  error.code = end.reason == FinishReason::timeout ? "timeout" : "";
  if (!stream_begun_) {
    HttpHeaders headers;
    if (error.status == 503) {
      headers.emplace_back("Retry-After", std::to_string(context_.retry_after_s));
    }
    return responder_->send(error.status, "application/json", error_json(error), headers);
  }
  std::string json = error_json(error);
  json.pop_back();  // its newline
  responder_->write("data: " + json + "\n\ndata: [DONE]\n\n");
  responder_->end();
}

void Completion::on_end(const GenerationEnd& end) {
  const bool is_answer = end.reason == FinishReason::stop || end.reason == FinishReason::length;
  if (!is_answer) return fail(end);
  std::string rest;
  if (!is_stopped_) {
    std::string tail;
    decoder_.finish(&tail);
    stop_.pass(tail, &rest);
  }
  show(rest, true);
  const bool calls =
      is_chat_ && end.reason == FinishReason::stop && parser_.tool_calls_complete() > 0;
  const char* reason = calls ? "tool_calls" : name_of(end.reason);
  if (streams_) {
    send_chunk(is_chat_ ? Json::object() : Json(""), reason);
    if (include_usage_) {
      Json last = envelope(is_chat_ ? "chat.completion.chunk" : "text_completion");
      last["choices"] = Json::array();
      last["usage"] = usage_json(end);
      send_event(last);
    }
    responder_->write("data: [DONE]\n\n");
    return responder_->end();
  }
  Json response = envelope(is_chat_ ? "chat.completion" : "text_completion");
  Json choice = {{"index", 0}};
  if (is_chat_) {
    choice["message"] = message_json();
  } else {
    choice["text"] = text_;
  }
  choice["logprobs"] = take_logprobs();
  choice["finish_reason"] = reason;
  if (returns_token_ids_) choice["prompt_token_ids"] = context_.prompt_ids;
  add_extensions(choice);
  response["choices"] = Json::array({std::move(choice)});
  response["usage"] = usage_json(end);
  responder_->send(200, "application/json", response.dump() + "\n", {});
}

}  // namespace splitwave::serve
