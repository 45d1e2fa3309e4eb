// Trace readers: the shipped traces, and what a damaged one is refused with.
#include "experiment/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace splitwave::experiment {
namespace {

const std::string k_header = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
const std::string k_traces = SPLITWAVE_SOURCE_DIR "/bench/traces/";

std::string azure_error(const std::string& text) {
  const auto trace = parse_azure_csv(text, "t.csv");
  return trace.ok() ? "accepted" : trace.error().message;
}
std::string mooncake_error(const std::string& text) {
  const auto trace = parse_mooncake_jsonl(text, "t.jsonl");
  return trace.ok() ? "accepted" : trace.error().message;
}

TEST(Trace, ReadsEveryRequestOfTheShippedTraces) {
  const auto code = read_trace(k_traces + "azure-llm-2023-code.csv");
  ASSERT_TRUE(code.ok()) << code.error().message;
  ASSERT_EQ(code->requests.size(), 8819U);
  EXPECT_EQ(code->requests[0].context_tokens, 4808);
  EXPECT_EQ(code->requests[0].generated_tokens, 10);
  EXPECT_NEAR(code->requests[1].arrival_s, 0.052, 1e-6);
  EXPECT_NEAR(code->requests.back().arrival_s, 3435.948, 1e-3);
  EXPECT_EQ(code->sha256, "54e9a6d2a4bd06ba1e060304b900abbc74cbea53de96506e60fe5bb4f2277fb6");
  const auto conv = read_trace(k_traces + "azure-llm-2023-conv.csv");
  ASSERT_TRUE(conv.ok()) << conv.error().message;
  EXPECT_EQ(conv->requests.size(), 19366U);
  const auto chat = read_trace(k_traces + "mooncake-conversation.jsonl");
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  ASSERT_EQ(chat->requests.size(), 12031U);
  EXPECT_EQ(chat->requests[0].context_tokens, 6758);
  EXPECT_EQ(chat->requests[0].generated_tokens, 500);
  EXPECT_NEAR(chat->requests.back().arrival_s, 3536.999, 1e-9);
}

TEST(Trace, KeepsThePrefixBlocksOfMooncake) {
  const auto chat = read_trace(k_traces + "mooncake-conversation.jsonl");
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  for (const TraceRequest& request : chat->requests) {
    // The last block may be cut short.
    EXPECT_EQ(std::ssize(request.prefix_blocks), (request.context_tokens + 511) / 512);
  }
}

TEST(Trace, NamesLineFieldAndValueOfADamagedCsv) {
  const std::string good = "2023-11-16 18:17:03.97,1,2\n";
  EXPECT_EQ(azure_error(k_header + good + "2023-11-16 18:17:04,12x,2\n"),
            "t.csv:3: ContextTokens: '12x' is not a whole number from 0 to 16777216");
  EXPECT_EQ(azure_error(k_header + "2023-11-16 18:17:04,1,0\n"),
            "t.csv:2: GeneratedTokens: '0' is not a whole number from 1 to 16777216");
  EXPECT_EQ(azure_error(k_header + "2023-13-16 18:17:04,1,1\n"),
            "t.csv:2: TIMESTAMP: '2023-13-16 18:17:04' is not YYYY-MM-DD HH:MM:SS.fraction");
  EXPECT_EQ(
      azure_error(k_header + "2023-11-16 18:17:04,1\n"),
      "t.csv:2: line: '2023-11-16 18:17:04,1' does not hold three fields separated by commas");
  EXPECT_EQ(azure_error("a,b,c\n"),
            "t.csv:1: header: 'a,b,c' is not 'TIMESTAMP,ContextTokens,GeneratedTokens'");
  EXPECT_EQ(azure_error(k_header + good + "2023-11-16 18:17:02,1,1\n"),
            "t.csv:3: TIMESTAMP: arrives before the line above; sort the trace by arrival");
  EXPECT_EQ(azure_error(k_header), "t.csv: holds no request");
  EXPECT_EQ(azure_error(""), "t.csv: holds no request");
}

TEST(Trace, TakesLinesWithCarriageReturnsAndALastLineWithoutNewline) {
  const auto trace = parse_azure_csv(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2024-02-28 23:59:59,7,2\r\n"
      "2024-02-29 00:00:00.5,8,3",
      "t.csv");
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  ASSERT_EQ(trace->requests.size(), 2U);
  EXPECT_NEAR(trace->requests[1].arrival_s, 1.5, 1e-6) << "the step over midnight of a leap day";
}

TEST(Trace, NamesLineFieldAndValueOfADamagedJsonLine) {
  const std::string good = R"({"timestamp":1,"input_length":3,"output_length":4})"
                           "\n";
  EXPECT_EQ(mooncake_error(good), "accepted");
  EXPECT_EQ(mooncake_error(good + R"({"timestamp":1,"output_length":4})"),
            "t.jsonl:2: input_length: missing");
  EXPECT_EQ(mooncake_error(R"({"timestamp":1,"input_length":1.5,"output_length":4})"),
            "t.jsonl:1: input_length: '1.5' is not a whole number from 0 to 16777216");
  EXPECT_EQ(mooncake_error(R"({"timestamp":1,"input_length":16777217,"output_length":4})"),
            "t.jsonl:1: input_length: '16777217' is not a whole number from 0 to 16777216");
  EXPECT_EQ(mooncake_error(R"({"timestamp":"x","input_length":1,"output_length":4})"),
            "t.jsonl:1: timestamp: is not a number of milliseconds from 0 to 1e12");
  EXPECT_EQ(
      mooncake_error(R"({"timestamp":1,"input_length":1,"output_length":4,"hash_ids":[1.5]})"),
      "t.jsonl:1: hash_ids: holds something that is no integer");
  EXPECT_EQ(mooncake_error("[1]\n"), "t.jsonl:1: line: '[1]' is not a JSON object");
  EXPECT_EQ(mooncake_error("{\"timestamp\n"),
            "t.jsonl:1: line: '{\"timestamp' is not a JSON object");
}

TEST(Trace, BoundsTheLineAndQuotesNothingUnprintable) {
  const std::string long_line(k_trace_line_bytes_max + 1, '1');
  EXPECT_EQ(azure_error(k_header + long_line), "t.csv:2: line: longer than 1048576 bytes");
  const std::string message = azure_error(k_header + "\x01\x1b[31m" + std::string(100, 'z'));
  EXPECT_TRUE(std::all_of(message.begin(), message.end(), [](char c) { return c >= 0x20; }));
  EXPECT_LT(message.size(), 120U);
}

TEST(Trace, RefusesAMissingFileAndAnUnknownExtension) {
  EXPECT_EQ(read_trace("/nowhere/a.csv").error().message,
            "/nowhere/a.csv: No such file or directory");
  EXPECT_NE(read_trace("a.parquet").error().message.find("a trace is a .csv file"),
            std::string::npos);
}

}  // namespace
}  // namespace splitwave::experiment
