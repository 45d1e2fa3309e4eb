// Bodies of /v1/completions and /v1/chat/completions, read and checked. Owns ApiRequest and its
// readers: any bytes give a request within the limits or an ApiError that names the field. Pure:
// no engine, no socket; fuzzed by tests/fuzz. Called by the routes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/api_error.h"
#include "serve/chat_encoding.h"
#include "serve/generation.h"

namespace splitwave::serve {

inline constexpr int k_stop_strings_max = 16;
inline constexpr std::size_t k_stop_bytes_max = 256;

struct ApiLimits {
  std::string model_name;
  int vocab_size = 0;
  int context_tokens_max = 16384;  // prompt and output of one request
  int output_tokens_max = 4096;    // what max_tokens may ask for, and the default of chat
};

struct ApiRequest {
  bool is_chat = false;
  std::string prompt_text;               // completions: text ...
  std::vector<std::int32_t> prompt_ids;  // ... or token ids, which then are not empty
  std::vector<ChatMessage> messages;     // chat, tools attached
  ChatOptions chat;
  bool has_tools = false;
  SamplingOptions sampling;
  bool has_seed = false;
  int max_tokens = 0;  // 0: as many as there is room for
  std::vector<std::string> stop;
  bool stream = false;
  bool include_usage = false;
  bool wants_logprobs = false;
  bool returns_token_ids = false;              // extension return_token_ids
  std::vector<std::int32_t> forced_token_ids;  // extension
};

// The body of a POST; is_chat by the path.
[[nodiscard]] std::variant<ApiRequest, ApiError> read_api_request(std::string_view body,
                                                                  bool is_chat,
                                                                  const ApiLimits& limits);

}  // namespace splitwave::serve
