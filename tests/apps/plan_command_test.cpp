// splitwave plan and splitwave occupancy: fields, the source's experiment by command, refusals.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/command_runner.h"

namespace splitwave {
namespace {

CommandResult run(const std::string& arguments) {
  return run_splitwave(SPLITWAVE_BINARY_DIR, arguments);
}

const std::string k_source_plan =
    "plan --device rtx-pro-6000 --format v4 --heads 64 --topk 128 --extra-topk 512 "
    "--batch 64,80,96 --block-heads 32 ";

TEST(PlanCommand, ReproducesEveryGoldenPoint) {
  std::ifstream file(std::string(SPLITWAVE_SOURCE_DIR) + "/tests/data/occupancy-golden.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  for (const int target : {512, 768}) {
    const CommandResult result =
        run(k_source_plan + "--target-ctas " + std::to_string(target) + " --json");
    ASSERT_EQ(result.status, 0) << result.err;
    const nlohmann::json document = result.json();
    ASSERT_EQ(document["points"].size(), 3U);
    for (const nlohmann::json& point : document["points"]) {
      for (const nlohmann::json& expected : golden["points"]) {
        if (expected["target_ctas"] != target || expected["batch"] != point["batch"]) continue;
        EXPECT_EQ(point["splits"], expected["splits"]);
        EXPECT_EQ(point["ctas"], expected["ctas"]);
        EXPECT_EQ(point["waves"], expected["waves"]);
        EXPECT_NEAR(point["utilization"].get<double>(), expected["utilization"].get<double>(),
                    0.001);
      }
    }
  }
}

TEST(PlanCommand, RanksTheSourcesTwoArms) {
  const CommandResult result = run(k_source_plan + "--target-ctas 512,768 --json");
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json ranking = result.json()["ranking"];
  ASSERT_EQ(ranking.size(), 3U);
  EXPECT_EQ(ranking[0]["target_ctas"], nlohmann::json({512, 768}));
  EXPECT_EQ(ranking[0]["tie"], false);
  EXPECT_EQ(ranking[1]["tie"], true);
  EXPECT_EQ(ranking[2]["target_ctas"], nlohmann::json({768, 512}));
  EXPECT_EQ(ranking[2]["tie"], false);
}

TEST(PlanCommand, EveryPointHoldsTheContractsFields) {
  const CommandResult result = run("plan --device cpu --batch 1,8 --json");
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json points = result.json()["points"];
  ASSERT_EQ(points.size(), 2U);
  for (const nlohmann::json& point : points) {
    for (const char* field : {"batch", "mode", "class", "chunk_rows", "variant", "block_heads",
                              "chunks", "splits", "ctas", "ctas_per_sm", "waves", "utilization",
                              "predicted_us", "provenance", "reasons", "measurement"}) {
      EXPECT_TRUE(point.contains(field)) << field;
    }
    EXPECT_FALSE(point["reasons"].empty());
  }
}

TEST(PlanCommand, AnEmptyBatchPlansNoCtas) {
  const CommandResult result = run("plan --device cpu --batch 0 --json");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.json()["points"][0]["ctas"], 0);
}

void expect_refused(const std::string& arguments, const std::string& part) {
  const CommandResult result = run(arguments);
  EXPECT_EQ(result.status, 2) << arguments;
  EXPECT_NE(result.err.find(part), std::string::npos) << arguments << ":\n" << result.err;
  EXPECT_TRUE(result.out.empty()) << arguments << ":\n" << result.out;
}

TEST(PlanCommand, RefusesWithFieldValueAndWhatWorks) {
  expect_refused("plan --device rtx-pro6000 --json", "did you mean rtx-pro-6000?");
  expect_refused("plan --device cpu --heads 129", "heads=129; what works: 1..128");
  expect_refused("plan --device cpu --topk -1", "topk=-1; what works: 0 or more");
  expect_refused("plan --device cpu --batch 64,-1", "batch=-1; what works: 0..");
  expect_refused("plan --device cpu --batch x", "--batch");
  expect_refused("plan --device cpu --mode fast", "mode='fast' is unknown");
  expect_refused("plan --device cpu --class late", "class='late' is unknown");
  expect_refused("plan --device cpu --format v5", "v5");
  expect_refused("plan --device cpu --plan taget_ctas=5", "did you mean target_ctas?");
  expect_refused("plan --device cpu --block-heads 33", "block_heads=33");
  expect_refused("plan --device cpu --mode exact --target-ctas 64", "what works: mode=free");
  expect_refused("plan --device cpu --block-heads 32 --plan block_heads=64", "given twice");
  expect_refused("plan --device cpu --calibration /nowhere/at/all",
                 "calibration='/nowhere/at/all'");
  expect_refused("plan --device cpu --kernels source", "kernels=source");
  expect_refused("plan --device rtx-pro-6000 --target-ctas 0", "target-ctas=0");
}

TEST(OccupancyCommand, NamesWhatBindsTheDescribedKernel) {
  const CommandResult result = run(
      "occupancy --device rtx-pro-6000 --threads 128 --registers 168 --shared-bytes 81920 --json");
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json o = result.json();
  EXPECT_EQ(o["ctas_per_sm"], 1);
  EXPECT_EQ(o["warps_per_sm"], 4);
  EXPECT_NEAR(o["occupancy"].get<double>(), 0.083, 0.001);
  EXPECT_EQ(o["limiters"], nlohmann::json({"shared memory"}));
}

TEST(OccupancyCommand, RefusesWithFieldValueAndWhatWorks) {
  const std::string device = "occupancy --device h200 ";
  expect_refused(device, "threads=0");
  expect_refused(device + "--threads 128 --registers -1", "registers=-1");
  expect_refused(device + "--cubin /nowhere/at/all", "cubin='/nowhere/at/all'");
  expect_refused(device + "--cubin " + SPLITWAVE_SOURCE_DIR "/tests/data/occupancy-golden.json",
                 "not a 64-bit little-endian ELF");
  expect_refused(device + "--cubin x --registers 3", "--cubin");
  expect_refused("occupancy --device cpu --threads 128", "is a CPU");
}

}  // namespace
}  // namespace splitwave
