// Chat messages to the prompt that DeepSeek-V4 was trained on: roles, thinking, tools in DSML, tool
// results, quick-instruction tasks. Owns the message types, their reading from an OpenAI-style body
// and encode_chat; the rules are those of the published encoding (encoding_dsv4.py), checked on its
// golden prompts. Called by the HTTP layer; it makes no token ids (tokenizer.h) and reads no
// model output (tool_stream.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "serve/tokenizer.h"
#include "splitwave/status.h"

namespace splitwave::serve {

inline constexpr std::string_view k_bos_text = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view k_eos_text = "<｜end▁of▁sentence｜>";
inline constexpr std::string_view k_think_begin = "<think>";
inline constexpr std::string_view k_think_end = "</think>";
inline constexpr std::string_view k_dsml = "｜DSML｜";

inline constexpr int k_chat_messages_max = 4096;
inline constexpr int k_chat_tools_max = 512;
inline constexpr int k_json_depth_max = 64;  // of a tool schema, a response format, arguments

enum class ChatRole : std::uint8_t { system, developer, user, assistant, tool, latest_reminder };

struct ChatToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text, as the API carries it
};

struct ChatMessage {
  ChatRole role = ChatRole::user;
  std::string content;
  std::string reasoning_content;         // assistant
  std::vector<ChatToolCall> tool_calls;  // assistant
  std::string tool_call_id;              // tool: which call this answers
  std::vector<std::string> tools;        // system, developer: each the JSON text of one function
  std::string response_format;           // system, developer: JSON text, or empty
  std::string task;                      // action, query, authority, domain, title, read_url
  bool prefix = false;                   // assistant, last: the model goes on from content
};

enum class ReasoningEffort : std::uint8_t { none, high, max };
// Which checkpoint's effort texts: the April release prefixes max only, the 0731 release high and
// max.
enum class EncodingRelease : std::uint8_t { april, july31 };

struct ChatOptions {
  bool thinking = false;
  bool drop_thinking = true;  // of turns before the last user message; off when there are tools
  ReasoningEffort effort = ReasoningEffort::none;
  EncodingRelease release = EncodingRelease::april;
};

struct ChatPrompt {
  std::string text;
  // What messages, tools and results brought: encode(text, literal) finds no added token in it.
  std::vector<ByteSpan> literal;
  bool begins_in_thinking = false;  // the text ends with <think>: the output begins with reasoning
};

// bad_input names the message and the field: "messages[3].task: ...".
[[nodiscard]] Expected<ChatPrompt> encode_chat(const std::vector<ChatMessage>& messages,
                                               const ChatOptions& options);

// `messages` of an OpenAI-style body. Content is a string, null (assistant) or an array of text
// parts; `reasoning` is read as reasoning_content; unknown fields are ignored. Errors name the
// field from `messages` on.
[[nodiscard]] Expected<std::vector<ChatMessage>> read_chat_messages(
    const nlohmann::ordered_json& messages);

// `tools` of a body ([{"type": "function", "function": {...}}]): the JSON text of each function, in
// the order and with the key order given, for ChatMessage::tools.
[[nodiscard]] Expected<std::vector<std::string>> read_chat_tools(
    const nlohmann::ordered_json& tools);

// Puts a body's tools and response format (JSON text or empty) where the encoding expects them: on
// the first system message, which is added, empty, when there is none at the front.
void attach_tools(std::vector<ChatMessage>* messages, std::vector<std::string> tools,
                  std::string response_format = {});

// JSON as Python's json.dumps(value, ensure_ascii=False) writes it: ", " and ": ", key order kept.
// V4's prompts are made of it. bad_input when deeper than k_json_depth_max.
[[nodiscard]] Expected<std::string> python_json(const nlohmann::ordered_json& value);

}  // namespace splitwave::serve
