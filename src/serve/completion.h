// One request's answer: tokens to text, stop strings, reasoning and tool calls, and the JSON or the
// server-sent events that carry them. Owns Completion, the GenerationSink of an HTTP request. Runs
// on the engine thread; hands finished bytes to the Responder and never blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/api_request.h"
#include "serve/generation.h"
#include "serve/http_server.h"
#include "serve/stop_matcher.h"
#include "serve/tokenizer.h"
#include "serve/tool_stream.h"
#include "serve/utf8.h"

namespace splitwave::serve {

struct CompletionContext {
  const Tokenizer* tokenizer = nullptr;  // outlives every request
  std::string id;                        // cmpl-... or chatcmpl-...
  std::string model;
  std::string fingerprint;  // of weights, build and plan: what decides the bits
  std::int64_t created_unix_s = 0;
  int retry_after_s = 1;
  std::vector<std::int32_t> prompt_ids;  // sent back with return_token_ids
  bool begins_in_thinking = false;
};

class Completion final : public GenerationSink {
 public:
  Completion(const ApiRequest& request, CompletionContext context,
             std::shared_ptr<Responder> responder);

  [[nodiscard]] bool on_token(const GeneratedToken& token) override;
  void on_end(const GenerationEnd& end) override;

 private:
  using Json = nlohmann::ordered_json;

  void note_token(const GeneratedToken& token);
  void show(const std::string& text, bool is_last);
  void apply(const OutputEvent& event);
  [[nodiscard]] Json delta_of(const OutputEvent& event) const;
  [[nodiscard]] Json take_logprobs();
  void add_extensions(Json& choice);
  [[nodiscard]] Json envelope(const char* object) const;
  [[nodiscard]] Json usage_json(const GenerationEnd& end) const;
  [[nodiscard]] Json message_json() const;
  [[nodiscard]] Json chat_token_json(std::int32_t token, float logprob) const;
  [[nodiscard]] std::string token_text(std::int32_t token) const;
  [[nodiscard]] std::string call_id(int tool) const;
  void send_chunk(Json delta_or_text, const char* finish_reason);
  void send_event(const Json& json);
  void fail(const GenerationEnd& end);

  const bool is_chat_;
  const bool streams_;
  const bool include_usage_;
  const bool wants_logprobs_;
  const bool returns_token_ids_;
  const bool hashes_logits_;
  const int min_tokens_;
  CompletionContext context_;
  std::shared_ptr<Responder> responder_;
  StreamDecoder decoder_;
  StopMatcher stop_;
  OutputParser parser_;
  bool stream_begun_ = false;
  bool is_stopped_ = false;  // by a stop string
  std::size_t text_bytes_ = 0;

  // Not yet sent (streaming) or all of it.
  std::string text_;
  std::string reasoning_;
  struct ToolCall {
    std::string name;
    std::string arguments;
  };
  std::vector<ToolCall> tool_calls_;
  std::vector<std::int32_t> token_ids_;
  std::vector<std::string> hashes_;
  std::vector<GeneratedToken> logprob_tokens_;
  std::vector<std::size_t> logprob_offsets_;
};

}  // namespace splitwave::serve
