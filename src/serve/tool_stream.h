// What the model wrote, as it arrives: reasoning, content and tool calls out of V4's output text.
// Owns OutputParser, a streaming parser whose events do not depend on where the text was cut.
// Called by the server for every choice of a chat completion, streamed or not, and by the canary's
// tool-call check. It writes no prompt (chat_encoding.h) and makes no call ids.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace splitwave::serve {

inline constexpr std::size_t k_dsml_header_bytes_max = 4096;  // of an invoke or parameter tag
inline constexpr std::size_t k_dsml_json_value_bytes_max = std::size_t{1} << 20;

struct OutputEvent {
  enum class Kind : std::uint8_t {
    reasoning,       // text: more of reasoning_content
    content,         // text: more of content
    tool_begin,      // text: the function's name
    tool_arguments,  // text: more of the arguments' JSON text
    tool_end,        // the arguments are complete JSON
  };
  Kind kind = Kind::content;
  int tool = -1;  // index of the call, from 0; -1 for text
  std::string text;
  bool operator==(const OutputEvent&) const = default;
};

struct OutputParserOptions {
  bool begins_in_thinking = false;  // the prompt ended with <think>
  bool tools = false;               // DSML is parsed; else it is content like any other text
};

// Grammar: [reasoning "</think>"] content ["\n\n<｜DSML｜tool_calls>" invoke*
// "</｜DSML｜tool_calls>"]. A missing "</think>" before the tool calls is forgiven, and so is white
// space between tags. The text before the block gives up trailing newlines, at most two. String
// parameters stream as they come, JSON-escaped; others are given out when complete: as they stand
// when they are JSON, as a JSON string when they are not. Where the grammar breaks, the rest from
// the failing element on is content, word for word, and malformed() says why; calls that were
// complete stay complete.
class OutputParser {
 public:
  explicit OutputParser(const OutputParserOptions& options)
      : options_(options), state_(options.begins_in_thinking ? State::reasoning : State::content) {}

  // Text is whole code points (StreamDecoder gives them). Events are appended.
  void push(std::string_view text, std::vector<OutputEvent>* events);
  // The output ended, by EOS, stop or length: gives out what was held back.
  void finish(std::vector<OutputEvent>* events);

  [[nodiscard]] int tool_calls_complete() const { return complete_; }
  // An output that ends here has an incomplete block of tool calls.
  [[nodiscard]] bool inside_tool_calls() const {
    return state_ > State::rest && state_ != State::after_calls;
  }
  // Empty, or what broke the DSML grammar.
  [[nodiscard]] const std::string& malformed() const { return malformed_; }

 private:
  // In order: inside_tool_calls() compares.
  enum class State : std::uint8_t {
    reasoning,
    content,
    rest,            // content to the end
    between_calls,   // after <..tool_calls> or </..invoke>
    between_params,  // after an invoke's header or </..parameter>
    string_value,
    json_value,
    after_calls,  // after </..tool_calls>: white space only
  };

  // Each takes what it can from the buffer; false when it needs more text.
  bool advance(std::vector<OutputEvent>* events);
  bool advance_text(std::vector<OutputEvent>* events);
  bool advance_between_calls(std::vector<OutputEvent>* events);
  bool advance_between_params(std::vector<OutputEvent>* events);
  bool advance_string_value(std::vector<OutputEvent>* events);
  bool advance_json_value(std::vector<OutputEvent>* events);
  bool fail(const std::string& why, std::vector<OutputEvent>* events);
  void emit_text(std::string_view text, std::vector<OutputEvent>* events) const;
  void emit_arguments(std::string text, std::vector<OutputEvent>* events) const;
  void close_json_value(std::string_view value, std::vector<OutputEvent>* events) const;

  OutputParserOptions options_;
  State state_ = State::content;
  std::string buffer_;                // not yet consumed
  std::size_t scanned_ = 0;           // of buffer_: holds no begin of a closing tag (json_value)
  std::set<std::string> parameters_;  // names, of the open call
  int tool_ = -1;
  int complete_ = 0;
  std::string malformed_;
};

}  // namespace splitwave::serve
