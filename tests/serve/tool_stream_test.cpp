// The output parser: what each output means, and that cuts between any two bytes change nothing.
#include "serve/tool_stream.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/random.h"

namespace splitwave::serve {
namespace {

using Kind = OutputEvent::Kind;

// Neighbouring pieces of one text count as one event.
std::vector<OutputEvent> joined(const std::vector<OutputEvent>& events) {
  std::vector<OutputEvent> out;
  for (const OutputEvent& event : events) {
    const bool is_text = event.kind != Kind::tool_begin && event.kind != Kind::tool_end;
    if (is_text && !out.empty() && out.back().kind == event.kind && out.back().tool == event.tool) {
      out.back().text += event.text;
    } else {
      out.push_back(event);
    }
  }
  return out;
}

struct Parsed {
  std::vector<OutputEvent> events;
  std::string malformed;
  int complete = 0;
  bool operator==(const Parsed&) const = default;
};

// Parses text cut after each of `cuts` bytes.
Parsed parse(const std::string& text, const OutputParserOptions& options,
             const std::vector<std::size_t>& cuts = {}) {
  OutputParser parser(options);
  std::vector<OutputEvent> events;
  std::size_t at = 0;
  for (const std::size_t cut : cuts) {
    parser.push(text.substr(at, cut - at), &events);
    at = cut;
  }
  parser.push(text.substr(at), &events);
  parser.finish(&events);
  return {joined(events), parser.malformed(), parser.tool_calls_complete()};
}

constexpr OutputParserOptions k_thinking_tools{.begins_in_thinking = true, .tools = true};
constexpr OutputParserOptions k_tools{.begins_in_thinking = false, .tools = true};

const std::string k_two_calls =
    "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"cd\">\n"
    "<｜DSML｜parameter name=\"folder\" string=\"true\">a \"b\"\n\\c</｜DSML｜parameter>\n"
    "<｜DSML｜parameter name=\"depth\" string=\"false\"> [1, {\"x\": null}] </｜DSML｜parameter>\n"
    "</｜DSML｜invoke>\n<｜DSML｜invoke name=\"ls\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";

const std::vector<OutputEvent> k_two_calls_events = {
    {Kind::tool_begin, 0, "cd"},
    {Kind::tool_arguments, 0, R"({"folder": "a \"b\"\n\\c", "depth": [1, {"x": null}]})"},
    {Kind::tool_end, 0, ""},
    {Kind::tool_begin, 1, "ls"},
    {Kind::tool_arguments, 1, "{}"},
    {Kind::tool_end, 1, ""}};

// Outputs of every form, well formed or not.
std::vector<std::string> corpus() {
  return {
      "",
      "plain",
      "why\n</think>\nbecause\n\n",
      "why</think>answer\n\n" + k_two_calls,
      "thought without an end\n\n\n" + k_two_calls,
      "</think>" + k_two_calls + "\n",
      "</think>" + k_two_calls + " tail</think><｜DSML｜tool_calls>",
      "</think>a < b <｜DSM <｜DSML｜tool_call> <｜DSML｜tool_calls",
      "</think><｜DSML｜tool_calls>garbage",
      "</think><｜DSML｜tool_calls>\n<｜DSML｜invoke nam=\"x\">",
      "</think><｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"p\">1<",
      "</think>" + k_two_calls.substr(0, k_two_calls.size() - 60),
      "</think>" + k_two_calls.substr(0, 130),
      "</think><｜DSML｜tool_calls><｜DSML｜invoke name=\"f\">"
      "<｜DSML｜parameter name=\"p\" string=\"false\">True</｜DSML｜parameter>"
      "<｜DSML｜parameter name=\"p\" string=\"true\">twice</｜DSML｜parameter>"
      "</｜DSML｜invoke></｜DSML｜tool_calls>",
      "</think><｜DSML｜tool_calls><｜DSML｜invoke name=\"" + std::string(5000, 'n') + "\">",
  };
}

TEST(OutputParser, SplitsReasoningContentAndCalls) {
  const Parsed parsed = parse("why</think>answer\n\n" + k_two_calls, k_thinking_tools);
  std::vector<OutputEvent> expected = {{Kind::reasoning, -1, "why"}, {Kind::content, -1, "answer"}};
  expected.insert(expected.end(), k_two_calls_events.begin(), k_two_calls_events.end());
  EXPECT_EQ(parsed.events, expected);
  EXPECT_EQ(parsed.malformed, "");
  EXPECT_EQ(parsed.complete, 2);
}

TEST(OutputParser, ForgivesAMissingEndOfThinkingBeforeCalls) {
  const Parsed parsed = parse("why\n\n" + k_two_calls, k_thinking_tools);
  EXPECT_EQ(parsed.events.front(), (OutputEvent{Kind::reasoning, -1, "why"}));
  EXPECT_EQ(parsed.complete, 2);
}

TEST(OutputParser, GivesTheSameEventsForACutAtEveryByteAndForAllCuts) {
  for (const auto& options : {k_thinking_tools, k_tools, OutputParserOptions{}}) {
    for (const std::string& text : corpus()) {
      const Parsed whole = parse(text, options);
      std::vector<std::size_t> all;
      for (std::size_t cut = 1; cut < text.size(); ++cut) {
        all.push_back(cut);
        ASSERT_EQ(parse(text, options, {cut}), whole) << text << " cut at " << cut;
      }
      EXPECT_EQ(parse(text, options, all), whole) << text;
    }
  }
}

// Any mixture of tags and text: cuts do not matter, nothing is lost outside the blocks, and the
// arguments of a complete call are JSON.
TEST(OutputParser, HoldsItsPromisesOnRandomMixturesOfTags) {
  const std::vector<std::string> parts = {"<｜DSML｜tool_calls>",
                                          "</｜DSML｜tool_calls>",
                                          "<｜DSML｜invoke name=\"f\">",
                                          "</｜DSML｜invoke>",
                                          "<｜DSML｜parameter name=\"a\" string=\"true\">",
                                          "<｜DSML｜parameter name=\"b\" string=\"false\">",
                                          "</｜DSML｜parameter>",
                                          "</think>",
                                          "\n",
                                          "\n\n",
                                          "é\"",
                                          "12",
                                          "<",
                                          "｜DSML｜",
                                          "</"};
  Rng rng(7);
  int with_calls = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    // Half of the rounds begin inside a call, or few would reach one.
    if (round % 2 == 0) text = parts[0] + parts[2] + (round % 4 == 0 ? parts[4] : "");
    for (auto n = rng.below(12); n > 0; --n) {
      text += parts[rng.below(static_cast<std::uint32_t>(parts.size()))];
    }
    std::vector<std::size_t> cuts;
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      if (rng.below(4) == 0) cuts.push_back(cut);
    }
    const OutputParserOptions options{rng.below(2) == 0, rng.below(8) != 0};
    const Parsed whole = parse(text, options);
    ASSERT_EQ(parse(text, options, cuts), whole) << text;
    std::string arguments;
    for (const OutputEvent& event : whole.events) {
      if (event.kind == Kind::tool_begin) arguments.clear();
      if (event.kind == Kind::tool_arguments) arguments += event.text;
      if (event.kind == Kind::tool_end) {
        ASSERT_TRUE(nlohmann::json::accept(arguments)) << text << " -> " << arguments;
        ++with_calls;
      }
    }
    if (!options.tools) {
      std::string content;
      for (const OutputEvent& event : whole.events) {
        ASSERT_EQ(event.tool, -1);
        content += event.text;
      }
      const std::size_t lost =
          options.begins_in_thinking && text.find("</think>") != std::string::npos ? 8U : 0U;
      ASSERT_EQ(content.size() + lost, text.size()) << text;
    }
  }
  EXPECT_GT(with_calls, 200);
}

TEST(OutputParser, GivesBackWhatBreaksTheGrammarAsContent) {
  const Parsed garbage = parse("hi\n\n<｜DSML｜tool_calls>\ngarbage", k_tools);
  EXPECT_EQ(garbage.events, (std::vector<OutputEvent>{{Kind::content, -1, "higarbage"}}));
  EXPECT_EQ(garbage.malformed, "expected an invoke tag or the end of the tool calls");

  const Parsed tail = parse(k_two_calls + "\ntail", k_tools);
  EXPECT_EQ(tail.complete, 2);
  EXPECT_EQ(tail.events.back(), (OutputEvent{Kind::content, -1, "tail"}));
  EXPECT_EQ(tail.malformed, "text follows the tool calls");
}

TEST(OutputParser, AValueThatIsNoJsonBecomesAString) {
  const Parsed parsed = parse(
      "<｜DSML｜tool_calls><｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"p\" "
      "string=\"false\">True</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>",
      k_tools);
  EXPECT_EQ(parsed.events[1].text, R"({"p": "True"})");
}

TEST(OutputParser, SaysThatAnOutputEndsInsideTheCalls) {
  const Parsed parsed = parse(k_two_calls.substr(0, 130), k_tools);
  EXPECT_EQ(parsed.malformed, "the output ends inside the tool calls");
  EXPECT_EQ(parsed.complete, 0);
}

TEST(OutputParser, WithoutToolsDsmlIsContent) {
  const Parsed parsed = parse(k_two_calls, {});
  EXPECT_EQ(parsed.events, (std::vector<OutputEvent>{{Kind::content, -1, k_two_calls}}));
}

}  // namespace
}  // namespace splitwave::serve
