// The tuning table: the generator, and the rule for batches that were and were not measured.
#include "plan/tuning_table.h"

#include <gtest/gtest.h>

#include <string>

#include "plan/plan_fixtures.h"
#include "plan/planner.h"

namespace splitwave {

std::span<const TuningSeries> planted_tuning();  // generated from tests/data/tuning-planted.json

namespace {

const auto k_model_agrees = [](std::string_view) { return true; };
const auto k_model_objects = [](std::string_view) { return false; };

TEST(TuningTable, TheGeneratorKeepsEveryField) {
  ASSERT_EQ(planted_tuning().size(), 2U);
  const TuningSeries& first = planted_tuning()[0];
  EXPECT_EQ(first.device, "h200");
  EXPECT_EQ(first.format, KvFormat::v4);
  EXPECT_EQ(first.heads, 64);
  EXPECT_EQ(first.main_width, 128);
  EXPECT_EQ(first.extra_width, 512);
  EXPECT_EQ(first.row_lengths, "full");
  EXPECT_EQ(first.incumbent, "v4_wgmma_n64");
  ASSERT_EQ(first.points.size(), 8U);
  EXPECT_EQ(first.points[1].batch, 32);
  EXPECT_EQ(first.points[1].winner, "v4_wgmma_n16");
  EXPECT_DOUBLE_EQ(first.points[1].winner_us, 18.8);
  EXPECT_DOUBLE_EQ(first.points[1].incumbent_us, 31.0);
  EXPECT_TRUE(first.points[1].is_win);
  EXPECT_FALSE(first.points[4].is_win);
  const TuningSeries& second = planted_tuning()[1];
  EXPECT_EQ(second.format, KvFormat::v32);
  EXPECT_EQ(second.operands, OperandType::f16);
  EXPECT_EQ(second.numerics, NumericsClass::latency);
  EXPECT_EQ(second.provenance, "planted for tests/plan");
}

TEST(TuningTable, AMeasuredBatchKeepsItsVerdict) {
  const TuningSeries& series = planted_tuning()[0];
  const TuningDecision win = decide_tuned(series, 32, k_model_objects);
  EXPECT_EQ(win.variant, "v4_wgmma_n16");
  EXPECT_TRUE(win.is_measured);
  EXPECT_DOUBLE_EQ(win.measured_us, 18.8);
}

TEST(TuningTable, ATieGoesToTheIncumbent) {
  const TuningDecision tie = decide_tuned(planted_tuning()[0], 80, k_model_agrees);
  EXPECT_EQ(tie.variant, "v4_wgmma_n64") << "31.7 us against 31.8 us is no win";
  EXPECT_TRUE(tie.is_measured);
  EXPECT_DOUBLE_EQ(tie.measured_us, 31.8);
}

TEST(TuningTable, AnUnmeasuredBatchMovesOnlyWhenBothNeighboursAndTheModelAgree) {
  const TuningSeries& series = planted_tuning()[0];
  const TuningDecision agreed = decide_tuned(series, 56, k_model_agrees);
  EXPECT_EQ(agreed.variant, "v4_wgmma_n32");
  EXPECT_FALSE(agreed.is_measured);
  EXPECT_EQ(decide_tuned(series, 56, k_model_objects).variant, series.incumbent);
  EXPECT_EQ(decide_tuned(series, 24, k_model_agrees).variant, series.incumbent)
      << "the neighbours name two variants";
  EXPECT_EQ(decide_tuned(series, 72, k_model_agrees).variant, series.incumbent)
      << "one neighbour is a tie";
}

TEST(TuningTable, ABatchOutsideTheMeasuredOnesKeepsTheIncumbent) {
  const TuningSeries& series = planted_tuning()[0];
  for (const int batch : {1, 15, 129, 4096}) {
    EXPECT_EQ(decide_tuned(series, batch, k_model_agrees).variant, series.incumbent) << batch;
  }
}

Plan tuned_plan(int rows, const std::string& text = "") {
  const PlannerData data{{}, planted_tuning()};
  return choose_plan(v4_flash(), device_named("h200"), hopper_registry(), rows, overrides_of(text),
                     data)
      .value();
}

TEST(TuningTable, ThePlannerFollowsItAndSaysWhatIsMeasured) {
  const Plan measured = tuned_plan(32);
  EXPECT_EQ(measured.variant, "v4_wgmma_n16");
  EXPECT_EQ(measured.provenance, Provenance::measured);
  EXPECT_DOUBLE_EQ(measured.predicted_us, 18.8);
  const Plan between = tuned_plan(56);
  EXPECT_EQ(between.variant, "v4_wgmma_n32") << "the model prefers it to 64 heads as well";
  EXPECT_EQ(between.provenance, Provenance::modelled);
  // Planted against the model: both neighbours say 8 heads, the model says that is slower.
  EXPECT_EQ(tuned_plan(120).variant, "v4_wgmma_n64");
  EXPECT_NE(tuned_plan(120).reasons.front().find("but the model does not"), std::string::npos);
}

TEST(TuningTable, AnOverrideComesBeforeIt) {
  EXPECT_EQ(tuned_plan(32, "block_heads=64").variant, "v4_wgmma_n64");
  EXPECT_EQ(tuned_plan(32, "class=latency").provenance, Provenance::modelled);
}

TEST(TuningTable, AVariantOutsideTheClassIsNotFollowed) {
  std::vector<VariantTraits> registry = hopper_registry();
  registry[1].numerics_class = "another";  // v4_wgmma_n16
  const PlannerData data{{}, planted_tuning()};
  const Plan plan = choose_plan(v4_flash(), device_named("h200"), registry, 32, {}, data).value();
  EXPECT_NE(plan.variant, "v4_wgmma_n16");
  EXPECT_NE(plan.reasons.front().find("not in this build's class"), std::string::npos);
}

TEST(TuningTable, TheBuiltInTableNamesARecordForEverySeries) {
  for (const TuningSeries& series : built_in_tuning()) {
    EXPECT_FALSE(series.provenance.empty()) << series.device;
    EXPECT_FALSE(series.points.empty()) << series.device;
  }
}

}  // namespace
}  // namespace splitwave
