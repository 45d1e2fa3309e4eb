// The prompt encoding: the published golden prompts byte for byte, and what they do not reach.
#include "serve/chat_encoding.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "serve/tool_stream.h"

namespace splitwave::serve {
namespace {

using Json = nlohmann::ordered_json;

std::string data_file(const std::string& name) {
  return *read_file(std::string(SPLITWAVE_SOURCE_DIR) + "/tests/data/deepseek_v4/" + name, 1 << 20);
}

// A published case is a list of messages, or messages with tools.
std::vector<ChatMessage> golden_messages(int number) {
  const Json json = Json::parse(data_file("chat_" + std::to_string(number) + ".json"));
  auto messages = read_chat_messages(json.is_array() ? json : json["messages"]);
  EXPECT_TRUE(messages.ok()) << messages.error().message;
  if (json.is_object()) attach_tools(&*messages, *read_chat_tools(json["tools"]));
  return *messages;
}

std::string golden_prompt(int number) {
  return data_file("chat_" + std::to_string(number) + ".txt");
}

std::vector<ChatMessage> parse_messages(const std::string& json) {
  auto messages = read_chat_messages(Json::parse(json));
  EXPECT_TRUE(messages.ok()) << messages.error().message;
  return *messages;
}

std::string encode(const std::string& json, const ChatOptions& options) {
  const auto prompt = encode_chat(parse_messages(json), options);
  EXPECT_TRUE(prompt.ok()) << prompt.error().message;
  return prompt->text;
}

std::string error_of(const std::string& json) {
  const auto messages = read_chat_messages(Json::parse(json));
  if (!messages) return messages.error().message;
  const auto prompt = encode_chat(*messages, {});
  return prompt ? "none" : prompt.error().message;
}

TEST(ChatEncoding, WritesThePublishedGoldenPromptsByteForByte) {
  for (const int number : {1, 2, 3, 4}) {
    const auto prompt = encode_chat(golden_messages(number), {.thinking = number != 4});
    ASSERT_TRUE(prompt.ok()) << prompt.error().message;
    EXPECT_EQ(prompt->text, golden_prompt(number)) << number;
  }
}

// 300 random conversations against the published encoding (make_chat_vectors.py).
TEST(ChatEncoding, WritesWhatThePublishedEncodingWritesForRandomConversations) {
  const Json vectors = Json::parse(data_file("chat_vectors.json"));
  ASSERT_EQ(vectors.size(), 300U);
  int number = 0;
  for (const Json& vector : vectors) {
    ChatOptions options{.thinking = vector["thinking"], .drop_thinking = vector["drop_thinking"]};
    if (vector["effort"] == "high") options.effort = ReasoningEffort::high;
    if (vector["effort"] == "max") options.effort = ReasoningEffort::max;
    const auto messages = read_chat_messages(vector["messages"]);
    ASSERT_TRUE(messages.ok()) << number << ": " << messages.error().message;
    const auto prompt = encode_chat(*messages, options);
    ASSERT_TRUE(prompt.ok()) << number << ": " << prompt.error().message;
    std::uint64_t hash = 0xCBF29CE484222325ULL;
    for (const char c : prompt->text) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
    }
    char hex[17];
    std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(hash));
    EXPECT_EQ(vector["bytes"], prompt->text.size()) << number << ": " << prompt->text;
    EXPECT_EQ(vector["hash"], hex) << number << ": " << prompt->text;
    ++number;
  }
}

TEST(ChatEncoding, KeepsTheReasoningOfEveryTurnWhenThereAreTools) {
  auto messages = golden_messages(2);
  EXPECT_EQ(encode_chat(messages, {.thinking = true})->text.find("I should greet back"),
            std::string::npos);
  attach_tools(&messages, {R"({"name": "f"})"});
  EXPECT_NE(encode_chat(messages, {.thinking = true})->text.find("I should greet back"),
            std::string::npos);
}

TEST(ChatEncoding, EndsInThinkOnlyWhenTheModelIsToReason) {
  const std::string hello = R"([{"role": "user", "content": "Hello<think>"}])";
  EXPECT_EQ(encode(hello, {}),
            "<｜begin▁of▁sentence｜><｜User｜>Hello<think><｜Assistant｜></think>");
  const auto chat = encode_chat(parse_messages(hello), {});
  EXPECT_FALSE(chat->begins_in_thinking);
  const auto thinking = encode_chat(parse_messages(hello), {.thinking = true});
  EXPECT_TRUE(thinking->begins_in_thinking);
  EXPECT_TRUE(thinking->text.ends_with("<｜Assistant｜><think>"));
}

TEST(ChatEncoding, SortsToolResultsByTheCallsAndJoinsThemWithTheUsersText) {
  const std::string text = encode(R"([
      {"role": "user", "content": "two things"},
      {"role": "assistant", "content": "", "tool_calls": [
          {"id": "a", "function": {"name": "f", "arguments": "{}"}},
          {"id": "b", "function": {"name": "g", "arguments": "{\"x\": 1.0, \"y\": \"z\"}"}}]},
      {"role": "tool", "tool_call_id": "b", "content": "second"},
      {"role": "tool", "tool_call_id": "a", "content": "first"},
      {"role": "user", "content": "go on"}])",
                                  {});
  EXPECT_NE(text.find("<｜User｜><tool_result>first</tool_result>\n\n"
                      "<tool_result>second</tool_result>\n\ngo on<｜Assistant｜></think>"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("<｜DSML｜invoke name=\"g\">\n"
                      "<｜DSML｜parameter name=\"x\" string=\"false\">1.0</｜DSML｜parameter>\n"
                      "<｜DSML｜parameter name=\"y\" string=\"true\">z</｜DSML｜parameter>\n"
                      "</｜DSML｜invoke>"),
            std::string::npos)
      << text;
}

TEST(ChatEncoding, PutsTheEffortTextOfTheReleaseFirst) {
  const std::string hello = R"([{"role": "user", "content": "Hello"}])";
  const auto prefix = [&](ReasoningEffort effort, EncodingRelease release, bool thinking) {
    const std::string text =
        encode(hello, {.thinking = thinking, .effort = effort, .release = release});
    const std::string bare = encode(hello, {.thinking = thinking});
    return text.substr(k_bos_text.size(), text.size() - bare.size()).substr(0, 30);
  };
  using enum ReasoningEffort;
  using enum EncodingRelease;
  EXPECT_EQ(prefix(high, april, true), "");
  EXPECT_EQ(prefix(max, april, true), "Reasoning Effort: Absolute max");
  EXPECT_EQ(prefix(high, july31, true), "Reasoning Effort: Absolute max");
  EXPECT_EQ(prefix(max, july31, true), "Reasoning Effort: Beyond maxim");
  EXPECT_EQ(prefix(max, july31, false), "");
}

TEST(ChatEncoding, MarksEverythingThatMessagesBringAsLiteral) {
  const auto messages = parse_messages(R"([
      {"role": "system", "content": "S<｜User｜>"}, {"role": "user", "content": "U</think>"},
      {"role": "assistant", "content": "A", "tool_calls": [
          {"function": {"name": "f｜DSML｜", "arguments": "{\"k<think>\": \"v｜DSML｜\"}"}}]},
      {"role": "tool", "content": "T<｜Assistant｜>"}])");
  const auto prompt = encode_chat(messages, {});
  std::string literal;
  std::size_t at = 0;
  std::string markup;
  for (const ByteSpan& span : prompt->literal) {
    ASSERT_LE(at, span.begin);
    markup += prompt->text.substr(at, span.begin - at) + "|";
    literal += prompt->text.substr(span.begin, span.end - span.begin) + "|";
    at = span.end;
  }
  EXPECT_EQ(literal, "S<｜User｜>|U</think>|A|f｜DSML｜|k<think>|v｜DSML｜|T<｜Assistant｜>|");
  EXPECT_EQ(markup,
            "<｜begin▁of▁sentence｜>|<｜User｜>|<｜Assistant｜></think>|"
            "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"|\">\n<｜DSML｜parameter name=\"|"
            "\" string=\"true\">|</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
            "<｜end▁of▁sentence｜><｜User｜><tool_result>|");
}

TEST(ChatEncoding, NamesTheFieldOfABadMessage) {
  EXPECT_EQ(error_of(R"([{"role": "robot", "content": ""}])"),
            "messages[0].role: 'robot' is not one of system, developer, user, assistant, tool, "
            "latest_reminder");
  EXPECT_EQ(error_of(R"([{"role": "user"}])"),
            "messages[0].content: expected a string or text parts");
  EXPECT_EQ(error_of(R"([{"role": "user", "content": [{"type": "image_url"}]}])"),
            "messages[0].content[0]: only parts of type \"text\" are supported");
  EXPECT_EQ(error_of(R"([{"role": "assistant", "tool_calls": [{"function": {"name": 1}}]}])"),
            "messages[0].tool_calls[0].function.name: expected a string");
  EXPECT_EQ(error_of(R"([{"role": "user", "content": "", "task": "dance"}])"),
            "messages[0].task: 'dance' is not one of action, query, authority, domain, title, "
            "read_url");
  EXPECT_EQ(error_of("[]"), "messages: empty; give at least one message");
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  EXPECT_EQ(error_of(R"([{"role": "system", "content": "", "response_format": )" + deep + "}]"),
            "messages[0].response_format: nested deeper than 64");
}

TEST(ChatEncoding, ArgumentsThatAreNoJsonObjectBecomeOneParameter) {
  const std::string text = encode(R"([{"role": "user", "content": ""},
      {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[1"}}]}])",
                                  {});
  EXPECT_NE(text.find("name=\"arguments\" string=\"true\">[1</｜DSML｜parameter>"),
            std::string::npos)
      << text;
}

// A published prompt ends with what the model wrote; parsing it gives the message back.
TEST(ChatEncoding, WhatItWritesForAnAssistantIsWhatTheOutputParserReads) {
  const std::string prompt = golden_prompt(1);
  const std::string marker = "<｜Assistant｜><think>";
  const std::size_t begin = prompt.find(marker) + marker.size();
  const std::string output = prompt.substr(begin, prompt.find(k_eos_text, begin) - begin);
  OutputParser parser({.begins_in_thinking = true, .tools = true});
  std::vector<OutputEvent> events;
  parser.push(output, &events);
  parser.finish(&events);
  EXPECT_EQ(parser.malformed(), "");
  ASSERT_EQ(parser.tool_calls_complete(), 1);
  std::string reasoning, content, name, arguments;
  for (const OutputEvent& event : events) {
    if (event.kind == OutputEvent::Kind::reasoning) reasoning += event.text;
    if (event.kind == OutputEvent::Kind::content) content += event.text;
    if (event.kind == OutputEvent::Kind::tool_begin) name += event.text;
    if (event.kind == OutputEvent::Kind::tool_arguments) arguments += event.text;
  }
  const ChatMessage message = golden_messages(1)[2];
  EXPECT_EQ(reasoning, message.reasoning_content);
  EXPECT_EQ(content, "");
  EXPECT_EQ(name, message.tool_calls[0].name);
  EXPECT_EQ(arguments, message.tool_calls[0].arguments);
}

}  // namespace
}  // namespace splitwave::serve
