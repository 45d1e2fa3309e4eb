// The source's target-CTAs experiment, replayed: every point of tests/data/occupancy-golden.json.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/occupancy.h"
#include "plan/plan_fixtures.h"
#include "plan/planner.h"
#include "plan/ranking.h"
#include "plan/source_kernel.h"

namespace splitwave {
namespace {

nlohmann::json golden() {
  std::ifstream file(std::string(SPLITWAVE_SOURCE_DIR) + "/tests/data/occupancy-golden.json");
  return nlohmann::json::parse(file);
}

Plan source_plan(int batch, int target_ctas) {
  const std::vector<VariantTraits> traits = {source_kernel_traits(KvFormat::v4)};
  PlanOverrides overrides;
  overrides.target_ctas = target_ctas;
  overrides.block_heads = 32;
  return choose_plan(v4_flash(), device_named("rtx-pro-6000"), traits, batch, overrides).value();
}

TEST(Golden, PlanReproducesSplitsCtasWavesAndUtilisationOfEveryPoint) {
  const nlohmann::json points = golden()["points"];
  ASSERT_EQ(points.size(), 6U);
  for (const auto& point : points) {
    const int batch = point["batch"];
    const int target = point["target_ctas"];
    const Plan plan = source_plan(batch, target);
    const std::string what = std::to_string(target) + " at " + std::to_string(batch);
    EXPECT_EQ(plan.batch * plan.head_blocks, point["base_ctas"].get<int>()) << what;
    EXPECT_EQ(plan.splits, point["splits"].get<int>()) << what;
    EXPECT_EQ(plan.chunks, plan.splits) << what;
    EXPECT_EQ(plan.ctas, point["ctas"].get<int>()) << what;
    EXPECT_EQ(plan.waves, point["waves"].get<int>()) << what;
    EXPECT_NEAR(plan.utilization, point["utilization"].get<double>(), 0.001) << what;
    EXPECT_EQ(plan.ctas_per_sm, 1) << what;
    EXPECT_EQ(plan.mode, SplitMode::free) << what;
  }
}

TEST(Golden, Ranks512Above768At64ATieAt80And768Above512At96) {
  const auto ranked = [](int batch) {
    return rank_targets(batch, {{512, source_plan(batch, 512).predicted_us},
                                {768, source_plan(batch, 768).predicted_us}});
  };
  EXPECT_EQ(ranked(64).order.front().target_ctas, 512);
  EXPECT_FALSE(ranked(64).is_tie) << ranked(64).text;
  EXPECT_GT(source_plan(64, 512).utilization, source_plan(64, 768).utilization);
  EXPECT_TRUE(ranked(80).is_tie) << ranked(80).text;
  EXPECT_DOUBLE_EQ(source_plan(80, 512).utilization, source_plan(80, 768).utilization);
  EXPECT_EQ(ranked(96).order.front().target_ctas, 768);
  EXPECT_FALSE(ranked(96).is_tie) << ranked(96).text;
  EXPECT_LT(source_plan(96, 512).utilization, source_plan(96, 768).utilization);
}

TEST(Golden, TheModelsChangeOfStepTimeIsTheSources) {
  // 43 attention calls a step; the rest of the step does not depend on the splits.
  std::map<std::pair<int, int>, double> step_ms;
  const nlohmann::json points = golden()["points"];
  for (const auto& point : points) {
    if (point["decode_tok_s"].is_null()) continue;
    const int batch = point["batch"];
    step_ms[{batch, point["target_ctas"].get<int>()}] =
        batch / point["decode_tok_s"].get<double>() * 1e3;
  }
  for (const int batch : {64, 96}) {
    const double measured_ms = step_ms.at({batch, 768}) - step_ms.at({batch, 512});
    const double modelled_ms =
        43 * (source_plan(batch, 768).predicted_us - source_plan(batch, 512).predicted_us) / 1e3;
    EXPECT_NEAR(modelled_ms, measured_ms, 0.6) << batch;
  }
}

TEST(Golden, SharedMemoryBindsTheDescribedKernel) {
  const nlohmann::json kernel = golden()["kernel_before"];
  const VariantTraits traits = source_kernel_traits(KvFormat::v4);
  EXPECT_EQ(traits.threads, kernel["threads"].get<int>());
  EXPECT_NEAR(traits.shared_bytes, kernel["shared_bytes_about"].get<int>(), 2000);
  EXPECT_GT(traits.registers, kernel["accumulator_f32_per_thread"].get<int>());
  const Occupancy o = *occupancy_of(device_named("rtx-pro-6000"),
                                    {traits.threads, traits.registers, traits.shared_bytes});
  EXPECT_EQ(o.limiters, std::vector<std::string>{"shared memory"});
  EXPECT_EQ(o.warps_per_sm, kernel["warps_per_sm"].get<int>());
  EXPECT_NEAR(o.occupancy, kernel["occupancy"].get<double>(), 0.001);
}

}  // namespace
}  // namespace splitwave
