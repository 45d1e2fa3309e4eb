// `splitwave load` and `splitwave canary` as a user runs them: exit statuses and the JSON's fields.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/command_runner.h"
#include "base/files.h"
#include "canary/served_engine.h"

namespace splitwave::test {
namespace {

using Json = nlohmann::json;

CommandResult run(const std::string& arguments) {
  return run_splitwave(SPLITWAVE_BINARY_DIR, arguments);
}

const std::string k_small = " --sessions 6 --needles 1 --concurrency 12 --output-tokens 6 --json";

TEST(CanaryCommand, ExitsZeroOnAnHonestServerAndPrintsTheContractsFields) {
  const ServedEngine served(model::SeededFault::none);
  const CommandResult result = run("canary --url " + served.url() + k_small);
  ASSERT_EQ(result.status, 0) << result.err << result.out;
  const Json json = result.json();
  EXPECT_EQ(json["sessions"], 6);
  EXPECT_EQ(json["corrupted"], 0);
  EXPECT_NEAR(json["upper_bound_95"], 0.3930, 1e-4);  // 1 - 0.05^(1/6)
  EXPECT_TRUE(json["first_divergence"].is_null());
  EXPECT_EQ(json["level"], "logits");
}

TEST(CanaryCommand, ExitsOneOnCorruptionAgainstAKeptSoloRun) {
  const TempDir dir;
  const std::string solo = dir.file("solo.json");
  {
    const ServedEngine honest(model::SeededFault::none);
    const CommandResult made =
        run("canary --url " + honest.url() + k_small + " --solo-only --solo-out " + solo);
    ASSERT_EQ(made.status, 0) << made.err;
  }
  const ServedEngine faulty(model::SeededFault::swapped_pages);
  const CommandResult result = run("canary --url " + faulty.url() + k_small + " --solo " + solo);
  ASSERT_EQ(result.status, 1) << result.err << result.out;
  const Json first = result.json()["first_divergence"];
  for (const char* field : {"session", "turn", "step"}) {
    EXPECT_TRUE(first[field].is_number_integer()) << field;
  }
  EXPECT_GT(result.json()["corrupted"], 0);
}

TEST(CanaryCommand, ExitsTwoOnBadInputAndThreeWhereNothingListens) {
  EXPECT_EQ(run("canary --sessions 241").status, 2);
  EXPECT_EQ(run("canary --solo-only").status, 2);
  const CommandResult nobody = run("canary --url http://127.0.0.1:1");
  EXPECT_EQ(nobody.status, 3);
  EXPECT_NE(nobody.err.find("http://127.0.0.1:1"), std::string::npos) << nobody.err;
}

TEST(LoadCommand, WritesADocumentThatFitReads) {
  const ServedEngine served(model::SeededFault::none);
  const CommandResult result =
      run("load --url " + served.url() +
          " --concurrency 1,4 --prompt-tokens 20 --output-tokens 8 --warmup-s 0.1 --window-s 0.6 "
          "--sessions 2 --tolerance 1 --json");
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = result.json();
  ASSERT_EQ(json["points"].size(), 2U);
  for (const Json& point : json["points"]) {
    EXPECT_GT(point["tok_s"], 0);
    EXPECT_EQ(point["errors"], 0);
    for (const char* field : {"ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"}) {
      for (const char* p : {"p50", "p90", "p99"}) {
        EXPECT_TRUE(point[field][p].is_number()) << field << " " << p;
      }
    }
    EXPECT_TRUE(point["step_hz"].is_number());
    EXPECT_FALSE(point["samples"].empty());
  }
  const TempDir dir;
  ASSERT_TRUE(write_file(dir.file("load.json"), result.out).ok());
  const CommandResult fit = run("fit " + dir.file("load.json") + " --json");
  EXPECT_NE(fit.status, 2) << fit.err;  // it may judge the fit, it must not refuse the input
  EXPECT_EQ(run("load --url http://127.0.0.1:1").status, 3);
  EXPECT_EQ(run("load --concurrency 0").status, 2);
}

TEST(LoadCommand, ReplaysATrace) {
  const ServedEngine served(model::SeededFault::none);
  const TempDir dir;
  ASSERT_TRUE(
      write_file(dir.file("t.jsonl"),
                 R"({"timestamp": 0, "input_length": 40, "output_length": 4, "hash_ids": [1]}
{"timestamp": 100, "input_length": 40, "output_length": 6, "hash_ids": [1]}
{"timestamp": 90000, "input_length": 40, "output_length": 6, "hash_ids": [2]}
)")
          .ok());
  const CommandResult result = run("load --url " + served.url() + " --trace " +
                                   dir.file("t.jsonl") + " --warmup-s 0 --window-s 1 --json");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.json()["mode"], "open");
  EXPECT_EQ(result.json()["points"][0]["requests"], 2);
}

}  // namespace
}  // namespace splitwave::test
