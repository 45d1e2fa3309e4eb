// Step samples from CSV and from the load generator's JSON: what is read, and how faults are named.
#include "load/step_samples.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_dir.h"

namespace splitwave::load {
namespace {

void expect_refused(const Expected<std::vector<stats::StepSample>>& result,
                    const std::vector<std::string>& words) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::bad_input);
  for (const auto& word : words) {
    EXPECT_NE(result.error().message.find(word), std::string::npos)
        << "'" << word << "' is not in: " << result.error().message;
  }
}

TEST(StepCsv, ReadsColumnsInAnyOrderWithQuotesCommentsAndCrlf) {
  const auto samples = parse_step_csv(
      "\xEF\xBB\xBFstep_ms,note,session,concurrency\r\n# a comment\r\n"
      "19.05,x,\"run \"\"a\"\", 1\",1\r\n\r\n 85.2 ,, s2 , 64 \r\n1.188e2,,s2,96",
      "f.csv");
  ASSERT_TRUE(samples.ok()) << samples.error().message;
  ASSERT_EQ(samples->size(), 3U);
  EXPECT_EQ((*samples)[0].session, "run \"a\", 1");
  EXPECT_EQ((*samples)[1].session, "s2");
  EXPECT_EQ((*samples)[1].concurrency, 64);
  EXPECT_DOUBLE_EQ((*samples)[1].step_ms, 85.2);
  EXPECT_DOUBLE_EQ((*samples)[2].step_ms, 118.8);
}

TEST(StepCsv, NamesLineFieldValueAndRemedyOfABadNumber) {
  const std::string header = "session,concurrency,step_ms\n";
  expect_refused(parse_step_csv(header + "a,1,19\na,64,fast\n", "f.csv"),
                 {"f.csv:3", "step_ms='fast'", "above 0"});
  for (const char* bad : {"0", "-1", "nan", "inf", "1e999", "5ms", ""}) {
    expect_refused(parse_step_csv(header + "a,1," + bad + "\n", "f.csv"), {"f.csv:2", "step_ms="});
  }
  for (const char* bad : {"0", "-1", "1.5", "x", "99999999999"}) {
    expect_refused(parse_step_csv(header + "a," + bad + ",5\n", "f.csv"),
                   {"f.csv:2", "concurrency='", "whole number"});
  }
}

TEST(StepCsv, NamesAMissingADoubledAndAnEmptyField) {
  expect_refused(parse_step_csv("session,step_ms\na,1\n", "f.csv"),
                 {"f.csv:1", "concurrency 0 times", "session,concurrency,step_ms"});
  expect_refused(parse_step_csv("session,concurrency,step_ms,step_ms\n", "f.csv"),
                 {"step_ms 2 times"});
  expect_refused(parse_step_csv("session,concurrency,step_ms\na,1\n", "f.csv"),
                 {"f.csv:2", "2 fields", "3"});
  expect_refused(parse_step_csv("session,concurrency,step_ms\n,1,5\n", "f.csv"),
                 {"f.csv:2", "session is empty"});
  expect_refused(parse_step_csv("session,concurrency,step_ms\n\"a,1,5\n", "f.csv"),
                 {"f.csv:2", "quote"});
}

TEST(StepCsv, RefusesAFileWithoutSamples) {
  expect_refused(parse_step_csv("", "f.csv"), {"f.csv", "no samples"});
  expect_refused(parse_step_csv("session,concurrency,step_ms\n", "f.csv"), {"no samples"});
}

TEST(LoadJson, ReadsPointsAndSamples) {
  const auto samples = parse_load_json(
      R"({"points": [{"concurrency": 64, "tok_s": 811,
          "samples": [{"session": "a", "step_ms": 78.9},
          {"session": 2, "step_ms": 79}]}, {"concurrency": 96, "samples": []}]})",
      "l.json");
  ASSERT_TRUE(samples.ok()) << samples.error().message;
  ASSERT_EQ(samples->size(), 2U);
  EXPECT_EQ((*samples)[0].session, "a");
  EXPECT_EQ((*samples)[1].session, "2");
  EXPECT_EQ((*samples)[1].concurrency, 64);
}

TEST(LoadJson, NamesTheFieldAndItsValue) {
  expect_refused(parse_load_json(R"({"points": [)", "l.json"), {"l.json", "not JSON", "line 1"});
  expect_refused(parse_load_json(R"({"runs": []})", "l.json"), {"points=", "splitwave load"});
  expect_refused(parse_load_json(R"({"points": [{"samples": []}]})", "l.json"),
                 {"points[0].concurrency='null'"});
  expect_refused(parse_load_json(R"({"points": [{"concurrency": 8}]})", "l.json"),
                 {"points[0].samples='null'"});
  expect_refused(
      parse_load_json(
          R"({"points": [{"concurrency": 8, "samples": [{"session": "a", "step_ms": "x"}]}]})",
          "l.json"),
      {"points[0].samples[0].step_ms=", "above 0"});
  expect_refused(
      parse_load_json(R"({"points": [{"concurrency": 8, "samples": [{"step_ms": 4}]}]})", "l.json"),
      {"points[0].samples[0].session='null'"});
  expect_refused(parse_load_json(R"({"points": [{"concurrency": 8, "samples": []}]})", "l.json"),
                 {"no samples"});
}

TEST(StepSamples, TellsTheFormByTheFirstCharacterAndRefusesAMissingFile) {
  const test::TempDir folder;
  std::ofstream(folder.file("a")) << "\n {\"points\": [{\"concurrency\": 1, \"samples\": "
                                     "[{\"session\": \"s\", \"step_ms\": 2}]}]}";
  std::ofstream(folder.file("b")) << "session,concurrency,step_ms\ns,1,2\n";
  EXPECT_TRUE(read_step_samples(folder.file("a")).ok());
  EXPECT_TRUE(read_step_samples(folder.file("b")).ok());
  expect_refused(read_step_samples(folder.file("none")), {folder.file("none")});
}

}  // namespace
}  // namespace splitwave::load
