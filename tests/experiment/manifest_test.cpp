// experiment.toml: what a valid plan means, and the line, field and remedy of every refusal.
#include "experiment/manifest.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "experiment/plan_text.h"

namespace splitwave::experiment {
namespace {

using test::edited;
using test::plan_text;

std::string refusal(const std::string& text) {
  const auto m = parse_manifest(text, "e.toml", "0009-x");
  return m.ok() ? "accepted" : m.error().message;
}
std::string refusal(const std::string& from, const std::string& to) {
  return refusal(edited(plan_text(), from, to));
}

TEST(Manifest, HoldsWhatThePlanSays) {
  const auto m = parse_manifest(plan_text(), "e.toml", "0009-x");
  ASSERT_TRUE(m.ok()) << m.error().message;
  EXPECT_EQ(m->run.slug, "0009-x");
  ASSERT_EQ(m->run.arms.size(), 2U);
  EXPECT_EQ(m->run.arms[0].plan, "");
  EXPECT_EQ(m->run.arms[1].plan, "mode=free,target_ctas=64");
  ASSERT_EQ(m->run.points.size(), 2U);
  EXPECT_EQ(m->run.points[1].concurrency, 3);
  EXPECT_DOUBLE_EQ(m->run.points[1].weight, 0.75);
  EXPECT_EQ(m->run.points[1].batches[0].contexts, (std::vector<int>{100, 2000, 0}));
  EXPECT_EQ(m->run.heads, 64);
  EXPECT_EQ(m->run.seed, 7U);
  EXPECT_DOUBLE_EQ(m->run.analysis.minimum_effect, 0.02);
  EXPECT_EQ(m->run.stopping.rounds, 8);
  ASSERT_EQ(m->projections.size(), 1U);
  EXPECT_EQ(m->projections[0].arm, 1);
  EXPECT_EQ(m->projections[0].at, 3);
  EXPECT_DOUBLE_EQ(m->projections[0].high_percent, 4.5);
  EXPECT_EQ(m->falsified_by.at, k_at_mix);
}

TEST(Manifest, RefusesAnUnknownFieldWithTheNearestName) {
  EXPECT_EQ(refusal("rollback =", "rolback ="),
            "e.toml:5: rolback: unknown field (did you mean rollback?)");
  EXPECT_EQ(refusal("rollback = \"SPLITWAVE_PLAN=\"\n", ""), "e.toml:1: rollback: missing");
  EXPECT_EQ(refusal("seed = 7", "seed = 7\nlocalty = \"shared\""),
            "e.toml:25: workload.localty: unknown field (did you mean locality?)");
  EXPECT_EQ(refusal("rounds = 8", "rounds = 8\nqqqqqqqqqq = 1"),
            "e.toml:38: stopping.qqqqqqqqqq: unknown field");
  EXPECT_EQ(refusal("what = \"free", "waht = 1\nwhat = \"free"),
            "e.toml:18: arm[1].waht: unknown field (did you mean what?)");
}

TEST(Manifest, NamesLineFieldValueAndRemedy) {
  EXPECT_EQ(refusal("points = [1, 3]", "points = [1, 0]"),
            "e.toml:9: points: 0 is not a whole number from 1 to 1024");
  EXPECT_EQ(refusal("points = [1, 3]", "points = [3, 1]"),
            "e.toml:9: points: 1 after 3: the values must ascend");
  EXPECT_EQ(
      refusal("points = [1, 3]", "points = [1, 3, 8]"),
      "e.toml:9: points: nothing between 4 and 8: add a value there (launch choices lose most "
      "between powers of two)");
  EXPECT_EQ(refusal("metric = \"step_us\"", "metric = \"stepus\""),
            "e.toml:6: metric: 'stepus' is unknown (did you mean step_us?): one of step_us");
  EXPECT_EQ(refusal("model = \"v4-flash\"", "model = 4"),
            "e.toml:22: workload.model: 4 is not a text in quotes");
  EXPECT_EQ(refusal("why = \"w\"", "why = \" \""), "e.toml:3: why: is empty");
  EXPECT_EQ(refusal("rounds = 8", "rounds = 8.5"),
            "e.toml:37: stopping.rounds: 8.5 is not a whole number from 4 to 100000");
  EXPECT_EQ(refusal("rounds = 8", "rounds = [8"),
            "e.toml:39: TOML: Error while parsing array: "
            "expected comma or closing ']', saw '['")
      << "the parser's own words, with our line";
  EXPECT_EQ(refusal("percent = [-2, 0, 4.5]", "percent = [-2, 5, 4.5]"),
            "e.toml:42: projection[0].percent: [low, central, high] must not descend");
  EXPECT_EQ(refusal("percent = [-2, 0, 4.5]", "percent = [nan, 5, 4.5]"),
            "e.toml:42: projection[0].percent: nan is not a number from -100 to 10000");
  EXPECT_EQ(refusal("at = 3", "at = 2"), "e.toml:41: projection[0].at: 2 is not one of the points");
  EXPECT_EQ(refusal("at = \"mix\"", "at = \"mixx\""),
            "e.toml:48: falsified_by.at: 'mixx' is unknown (did you mean mix?): one of mix");
  EXPECT_EQ(refusal("arm = \"free\"\nat = 3", "arm = \"fre\"\nat = 3"),
            "e.toml:40: projection[0].arm: 'fre' is unknown (did you mean free?): one of free");
  EXPECT_EQ(refusal("weights = [1, 3]", "weights = [1]"),
            "e.toml:33: load_mix.weights: 1 weights for 2 points");
  EXPECT_EQ(refusal("weights = [1, 3]", "weights = [0, 0]"),
            "e.toml:33: load_mix.weights: their sum is 0");
  EXPECT_EQ(refusal("contexts = [500]", "contexts = [500, 1]"),
            "e.toml:27: workload.batch[0].contexts: 2 contexts for 1 slots");
  EXPECT_EQ(refusal("point = 1\n", "point = 2\n"),
            "e.toml:26: workload.batch[0].point: 2 is not one of the points");
}

TEST(Manifest, TakesOneBoundOfFalsification) {
  const std::string below = "below_percent = 0.0";
  const auto m = parse_manifest(edited(plan_text(), below, "above_percent = 2.0"), "e.toml", "x");
  ASSERT_TRUE(m.ok()) << m.error().message;
  EXPECT_TRUE(m->falsified_by.is_above);
  EXPECT_DOUBLE_EQ(m->falsified_by.bound_percent, 2.0);
  EXPECT_EQ(refusal(below, below + "\nabove_percent = 2.0"),
            "e.toml:50: falsified_by.above_percent: below_percent is given too: one bound refutes");
}

TEST(Manifest, RefusesArmsThatSayNothingNew) {
  EXPECT_EQ(
      refusal("plan = \"mode=free,target_ctas=64\"", "plan = \"\""),
      "e.toml:19: arm[1].plan: '' is another arm's plan too (the incumbent runs twice anyway: "
      "the A/A pair)");
  EXPECT_EQ(refusal("name = \"free\"", "name = \"incumbent\""),
            "e.toml:17: arm[1].name: 'incumbent' names two arms");
  EXPECT_NE(refusal("mode=free", "mode=fre").find("e.toml:19: arm[1].plan: "), std::string::npos);
  EXPECT_NE(refusal("plan = \"mode=free,target_ctas=64\"", "plan = \"variant=a\"\nvariant = \"b\"")
                .find("the plan names a variant already"),
            std::string::npos);
}

TEST(Manifest, FoldsAVariantNameIntoThePlan) {
  const auto m = parse_manifest(edited(plan_text(), "plan = \"mode=free,target_ctas=64\"",
                                       "plan = \"block_heads=16\"\nvariant = \"cpu_avx2\""),
                                "e.toml", "x");
  ASSERT_TRUE(m.ok()) << m.error().message;
  EXPECT_EQ(m->run.arms[1].plan, "block_heads=16,variant=cpu_avx2");
}

TEST(Manifest, ReadsPlantedFaultsButNeverInTheIncumbent) {
  const std::string free = "plan = \"mode=free,target_ctas=64\"";
  const auto m = parse_manifest(edited(plan_text(), free, "planted = \"slow:2.5\""), "e", "x");
  ASSERT_TRUE(m.ok()) << m.error().message;
  EXPECT_EQ(m->run.arms[1].planted, Planted::slow);
  EXPECT_DOUBLE_EQ(m->run.arms[1].planted_percent, 2.5);
  EXPECT_NE(refusal(free, "planted = \"slow:x\"").find("arm[1].planted"), std::string::npos);
  EXPECT_NE(refusal(free, "planted = \"flip\"").find("one of slow:PERCENT"), std::string::npos);
  EXPECT_EQ(refusal("what = \"the planner's choice\"", "what = \"t\"\nplanted = \"flip_bit\""),
            "e.toml:15: arm[0].planted: the incumbent (the first arm) cannot hold a planted fault");
}

TEST(Manifest, InsistsOnEveryGate) {
  EXPECT_NE(refusal("gates = [\"invariance\", \"accuracy\", \"repeat\"]", "gates = [\"accuracy\"]")
                .find("e.toml:10: gates: needs all of"),
            std::string::npos);
}

TEST(Manifest, RefusesTheTrimmedMeanUnderTheAnytimeRule) {
  const std::string text = edited(plan_text(), "rule = \"fixed\"", "rule = \"anytime\"");
  const auto m = parse_manifest(text, "e.toml", "x");
  ASSERT_TRUE(m.ok()) << m.error().message;
  EXPECT_FALSE(m->run.analysis.trimmed);
  EXPECT_NE(refusal(text + "[analysis]\nlocation = \"trimmed_mean\"\n").find("tests the mean"),
            std::string::npos);
}

TEST(Manifest, TemplateIsAValidPlanAndResolves) {
  const auto m = parse_manifest(manifest_template(), "template", "0042-new");
  ASSERT_TRUE(m.ok()) << m.error().message;
  const std::string folder = SPLITWAVE_SOURCE_DIR "/bench/traces";
  Manifest at_source = *m;
  at_source.workload.trace = "azure-llm-2023-code.csv";
  const auto plan = resolve(at_source, folder);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->trace_name, "azure-llm-2023-code.csv");
  double weights = 0;
  for (const PointSpec& p : plan->run.points) {
    weights += p.weight;
    ASSERT_EQ(p.batches.size(), 8U);
    for (const Batch& b : p.batches) {
      EXPECT_EQ(b.contexts.size(), static_cast<std::size_t>(p.concurrency));
    }
  }
  EXPECT_NEAR(weights, 1, 1e-9);
  ASSERT_EQ(plan->run.streams.size(), 3U);
  EXPECT_EQ(plan->run.streams[2].extra_width, 64) << "the code trace's contexts stay below 8,192";
}

TEST(Manifest, NamesTheMissingTrace) {
  const auto m = parse_manifest(manifest_template(), "template", "x");
  ASSERT_TRUE(m.ok());
  const auto plan = resolve(*m, "/nowhere");
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().message,
            "workload.trace: /nowhere/../../bench/traces/azure-llm-2023-code.csv: No such file or "
            "directory");
}

TEST(Manifest, ResolvesTheStreamsThatThePlanNames) {
  const std::string named = edited(plan_text(), "seed = 7", "seed = 7\nstreams = [\"c4\"]");
  const auto m = parse_manifest(named, "e.toml", "x");
  ASSERT_TRUE(m.ok()) << m.error().message;
  const auto plan = resolve(*m, ".");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_EQ(plan->run.streams.size(), 1U);
  EXPECT_EQ(plan->run.streams[0].layers, 21);
  const auto bad = parse_manifest(edited(named, "\"c4\"", "\"c5\""), "e.toml", "x");
  ASSERT_TRUE(bad.ok());
  EXPECT_EQ(resolve(*bad, ".").error().message,
            "workload.streams: model v4-flash has window, c4, c128; each may be named once");
}

}  // namespace
}  // namespace splitwave::experiment
