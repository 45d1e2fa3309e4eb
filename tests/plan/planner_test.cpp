// The planner: exact cuts, the free rule, the class rule, overrides, refusals.
#include "plan/planner.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "plan/chunks.h"
#include "plan/plan_fixtures.h"

namespace splitwave {
namespace {

Plan plan_of(const ProblemSpec& spec, const DeviceSpec& device,
             const std::vector<VariantTraits>& registry, int rows, const std::string& text = "") {
  const Expected<Plan> plan = choose_plan(spec, device, registry, rows, overrides_of(text));
  if (!plan.ok()) {
    ADD_FAILURE() << plan.error().message;
    return {};
  }
  return *plan;
}

std::string refusal(const ProblemSpec& spec, const DeviceSpec& device,
                    const std::vector<VariantTraits>& registry, int rows, const std::string& text) {
  const Expected<Plan> plan = choose_plan(spec, device, registry, rows, overrides_of(text));
  if (plan.ok()) return "planned " + plan->variant;
  EXPECT_EQ(plan.error().kind, ErrorKind::bad_input);
  return plan.error().message;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Planner, ExactChunksAreTheClassesAndNeverTheBatchs) {
  const DeviceSpec h200 = device_named("h200");
  for (int rows = 1; rows <= 256; ++rows) {
    const Plan throughput = plan_of(v4_flash(), h200, hopper_registry(), rows);
    EXPECT_EQ(throughput.mode, SplitMode::exact);
    EXPECT_EQ(throughput.chunk_rows, 640) << rows;
    EXPECT_EQ(throughput.splits, 1) << rows;
    const Plan latency = plan_of(v4_flash(), h200, hopper_registry(), rows, "class=latency");
    EXPECT_EQ(latency.numerics, NumericsClass::latency);
    EXPECT_EQ(latency.chunk_rows, 128) << rows;
    EXPECT_EQ(latency.splits, 5) << rows;
    EXPECT_EQ(latency.ctas, std::int64_t{rows} * latency.head_blocks * 5) << rows;
  }
}

TEST(Planner, SmallBatchesSplitHeadsAndLargeBatchesDoNot) {
  const DeviceSpec h200 = device_named("h200");
  EXPECT_EQ(plan_of(v4_flash(), h200, hopper_registry(), 1).block_heads, 8);
  EXPECT_EQ(plan_of(v4_flash(), h200, hopper_registry(), 64).block_heads, 32);
  EXPECT_EQ(plan_of(v4_flash(), h200, hopper_registry(), 128).block_heads, 64);
  const DeviceSpec cpu = cpu_device(8);
  EXPECT_LT(plan_of(v4_flash(), cpu, cpu_registry(), 1).block_heads, 64);
  EXPECT_EQ(plan_of(v4_flash(), cpu, cpu_registry(), 64).block_heads, 64);
}

TEST(Planner, ABlockNeverPadsHeadsThatASmallerOneServes) {
  const DeviceSpec h200 = device_named("h200");
  for (int rows = 1; rows <= 128; ++rows) {
    EXPECT_EQ(plan_of(v4_flash(8), h200, hopper_registry(), rows).block_heads, 8) << rows;
  }
}

TEST(Planner, TheNumericsClassIsFixedWhateverBatchAndHeads) {
  std::vector<VariantTraits> registry = hopper_registry();
  // A faster class behind the default one must stay out.
  VariantTraits other = hopper_variant(64);
  other.name = "v4_other";
  other.numerics_class = "another";
  other.block_heads = 128;
  registry.push_back(other);
  const DeviceSpec h200 = device_named("h200");
  std::set<std::string> variants;
  for (int heads = 1; heads <= 128; heads += 7) {
    for (int rows : {1, 2, 7, 33, 64, 96, 132, 133, 300}) {
      const Plan plan = plan_of(v4_flash(heads), h200, registry, rows);
      EXPECT_NE(plan.variant, "v4_other");
      EXPECT_EQ(plan.chunk_rows, 640);
      variants.insert(plan.variant);
    }
  }
  EXPECT_GE(variants.size(), 3U) << "the test needs plans that differ";
}

TEST(Planner, AnExperimentArmIsNeverChosenButCanBeNamed) {
  std::vector<VariantTraits> registry = hopper_registry();
  VariantTraits arm = hopper_variant(64);
  arm.name = "v4_arm";
  arm.stages = 2;
  arm.is_experiment_arm = true;
  registry.insert(registry.begin(), arm);
  const DeviceSpec h200 = device_named("h200");
  for (int rows = 1; rows <= 140; ++rows) {
    EXPECT_NE(plan_of(v4_flash(), h200, registry, rows).variant, "v4_arm");
  }
  EXPECT_EQ(plan_of(v4_flash(), h200, registry, 128, "variant=v4_arm").variant, "v4_arm");
  EXPECT_EQ(plan_of(v4_flash(), h200, registry, 128, "stages=2").variant, "v4_arm");
}

TEST(Planner, AnOverrideThatKeepsBitsNeverLeavesTheClass) {
  std::vector<VariantTraits> registry = hopper_registry();
  VariantTraits other = hopper_variant(64);
  other.name = "v4_t32";
  other.numerics_class = "v4-bf16-t32";
  other.tile_rows = 32;
  other.stages = 3;
  registry.push_back(other);
  const DeviceSpec h200 = device_named("h200");
  const std::string refused = refusal(v4_flash(), h200, registry, 64, "stages=3");
  EXPECT_TRUE(has(refused, "stages=3 is offered by no variant of numerics class v4-bf16-t128"))
      << refused;
  EXPECT_TRUE(has(refused, "what works: 7")) << refused;
  const Plan moved = plan_of(v4_flash(), h200, registry, 64, "tile_rows=32");
  EXPECT_EQ(moved.variant, "v4_t32");
  EXPECT_TRUE(has(moved.reasons.front(), "results differ in their last bits"));
}

TEST(Planner, AnOverrideIsHonouredOrRefusedWithWhatWorks) {
  const DeviceSpec h200 = device_named("h200");
  const Plan forced = plan_of(v4_flash(), h200, hopper_registry(), 128, "block_heads=16");
  EXPECT_EQ(forced.block_heads, 16);
  EXPECT_EQ(forced.provenance, Provenance::forced);
  EXPECT_EQ(plan_of(v4_flash(), h200, hopper_registry(), 8, "chunk_rows=256").chunks, 3);
  const auto refused = [&](const std::string& text) {
    return refusal(v4_flash(), h200, hopper_registry(), 64, text);
  };
  EXPECT_TRUE(has(refused("block_heads=24"), "what works: 8, 16, 32, 64"));
  EXPECT_TRUE(has(refused("warps=4"), "what works: 12"));
  EXPECT_TRUE(has(refused("ctas_per_sm=2"), "what works: 1"));
  EXPECT_TRUE(has(refused("variant=v4_wgmma_n46"), "did you mean v4_wgmma_n16?"));
  EXPECT_TRUE(has(refused("mode=exact,target_ctas=512"), "what works: mode=free"));
  EXPECT_TRUE(has(refused("mode=free,chunk_rows=64"), "what works: mode=exact"));
  EXPECT_TRUE(has(refused("prefetch=4"), "is the CPU backend's"));
  EXPECT_EQ(plan_of(v4_flash(), cpu_device(2), cpu_registry(), 4, "prefetch=16").prefetch, 16);
}

TEST(Planner, AProblemThatNoVariantServesIsRefusedWithTheThreeLists) {
  ProblemSpec spec = v4_flash();
  spec.format = KvFormat::v32;
  const std::string format = refusal(spec, device_named("h200"), hopper_registry(), 1, "");
  EXPECT_TRUE(has(format, "required: backend cuda; format v32; bf16 operands; code for sm_90"))
      << format;
  EXPECT_TRUE(has(format, "offered: v4_wgmma_n8 (cuda, v4, bf16, sm_90)")) << format;
  EXPECT_TRUE(has(format, "missing: format v32")) << format;
  const std::string arch = refusal(v4_flash(), device_named("a100"), hopper_registry(), 1, "");
  EXPECT_TRUE(has(arch, "missing: code for sm_80; a CTA that fits an SM of a100")) << arch;
  const std::string none = refusal(v4_flash(), device_named("a100"), {}, 1, "");
  EXPECT_TRUE(has(none, "this build has no variant for a100")) << none;
  // Each requirement is offered by somebody, no variant offers all.
  std::vector<VariantTraits> split = {hopper_variant(8), hopper_variant(16)};
  split[0].format = KvFormat::v32;
  split[1].operands = OperandType::f16;
  const std::string combined = refusal(v4_flash(), device_named("h200"), split, 1, "");
  EXPECT_TRUE(has(combined, "missing: format v4 (in v4_wgmma_n8, the closest)")) << combined;
}

TEST(Planner, ShapesOutsideTheContractAreRefusedByName) {
  ProblemSpec spec = v4_flash();
  const DeviceSpec h200 = device_named("h200");
  spec.heads = 129;
  EXPECT_TRUE(has(refusal(spec, h200, hopper_registry(), 1, ""), "heads=129; what works: 1..128"));
  spec = v4_flash();
  spec.main_width = -1;
  EXPECT_TRUE(has(refusal(spec, h200, hopper_registry(), 1, ""), "main_width=-1"));
  EXPECT_TRUE(has(refusal(v4_flash(), h200, hopper_registry(), -1, ""), "rows=-1"));
}

TEST(Planner, NoRowsGiveNoCtasAndNoEntriesStillWriteTheirZeros) {
  const Plan none = plan_of(v4_flash(), device_named("h200"), hopper_registry(), 0);
  EXPECT_EQ(none.ctas, 0);
  EXPECT_EQ(none.waves, 0);
  EXPECT_EQ(none.predicted_us, 0);
  ProblemSpec empty = v4_flash();
  empty.main_width = empty.extra_width = 0;
  const Plan zeros = plan_of(empty, device_named("h200"), hopper_registry(), 4);
  EXPECT_EQ(zeros.chunks, 0);
  EXPECT_EQ(zeros.splits, 1);
  EXPECT_EQ(zeros.ctas, 4 * zeros.head_blocks);
}

TEST(Planner, TheFreeRuleIsBoundedByWhatTheListCanBeCutInto) {
  const DeviceSpec h200 = device_named("h200");
  const Plan plan =
      plan_of(v4_flash(), h200, hopper_registry(), 1, "mode=free,target_ctas=512,block_heads=64");
  EXPECT_EQ(plan.splits, 5) << "640 entries are five tiles of 128";
  EXPECT_TRUE(has(plan.reasons.front(), "can only be cut into 5")) << plan.reasons.front();
  const Plan enough =
      plan_of(v4_flash(), h200, hopper_registry(), 1000, "target_ctas=512,block_heads=64");
  EXPECT_EQ(enough.mode, SplitMode::free);
  EXPECT_EQ(enough.splits, 1);
}

TEST(Planner, TheReasonsNameTheChoiceItsTermsAndTheRejected) {
  const Plan plan = plan_of(v4_flash(), device_named("h200"), hopper_registry(), 96);
  std::string all;
  for (const std::string& reason : plan.reasons) all += reason + "\n";
  EXPECT_TRUE(has(all, "exact, class throughput: a row is cut every 640 rows")) << all;
  EXPECT_TRUE(has(all, "block_heads 64: 96 items on 132 slots, 1 wave; predicted")) << all;
  EXPECT_TRUE(has(all, "rejected: v4_wgmma_n32, block_heads 32")) << all;
  EXPECT_TRUE(has(all, "cost constants modelled: ")) << all;
}

// ---- properties ------------------------------------------------------------------------------

struct RandomProblem {
  ProblemSpec spec;
  int rows = 0;
  PlanOverrides overrides;
};

RandomProblem random_problem() {
  RandomProblem p;
  p.spec.heads = *rc::gen::inRange(1, 129);
  p.spec.main_width = *rc::gen::inRange(0, 2100);
  p.spec.extra_width = *rc::gen::inRange(0, 1200);
  p.spec.numerics = *rc::gen::element(NumericsClass::throughput, NumericsClass::latency);
  p.rows = *rc::gen::inRange(0, 40);
  const int kind = *rc::gen::inRange(0, 4);
  if (kind == 1) p.overrides.target_ctas = *rc::gen::inRange(1, 2000);
  if (kind == 2) p.overrides.mode = SplitMode::free;
  if (kind == 3) p.overrides.chunk_rows = *rc::gen::inRange(1, 700);
  return p;
}

// Enumerates every item of a plan over rows of the given lengths and counts how often each
// (row, entry, head) is covered.
RC_GTEST_PROP(PlannerProperty, EveryEntryOfEveryHeadIsScheduledExactlyOnce, ()) {
  const RandomProblem p = random_problem();
  const Expected<Plan> plan =
      choose_plan(p.spec, device_named("h200"), hopper_registry(), p.rows, p.overrides);
  RC_ASSERT(plan.ok());
  const int width = p.spec.main_width + p.spec.extra_width;
  RC_ASSERT(plan->chunks == chunk_count(width, plan->chunk_rows));
  RC_ASSERT(plan->ctas == std::int64_t{p.rows} * plan->head_blocks * std::max(1, plan->chunks));
  RC_ASSERT(plan->head_blocks * plan->block_heads >= p.spec.heads);
  RC_ASSERT((plan->head_blocks - 1) * plan->block_heads < p.spec.heads);
  const int rows_checked = std::min(p.rows, 3);
  for (int row = 0; row < rows_checked; ++row) {
    const int length = *rc::gen::inRange(0, width + 1);
    std::vector<int> covered(static_cast<std::size_t>(length));
    for (int chunk = 0; chunk < plan->splits; ++chunk) {
      const std::int64_t begin = std::int64_t{chunk} * plan->chunk_rows;
      const std::int64_t end = std::min<std::int64_t>(length, begin + plan->chunk_rows);
      for (std::int64_t entry = begin; entry < end; ++entry) ++covered[entry];
    }
    RC_ASSERT(std::all_of(covered.begin(), covered.end(), [](int n) { return n == 1; }));
  }
  std::vector<int> heads(static_cast<std::size_t>(p.spec.heads));
  for (int block = 0; block < plan->head_blocks; ++block) {
    for (int h = 0; h < plan->block_heads; ++h) {
      const int head = block * plan->block_heads + h;
      if (head < p.spec.heads) ++heads[head];
    }
  }
  RC_ASSERT(std::all_of(heads.begin(), heads.end(), [](int n) { return n == 1; }));
}

RC_GTEST_PROP(PlannerProperty, ExactCutsDependOnTheRowAlone, ()) {
  RandomProblem p = random_problem();
  p.overrides = {};
  const auto cut = [&](int heads, int rows, const char* device, const auto& registry) {
    ProblemSpec spec = p.spec;
    spec.heads = heads;
    const Expected<Plan> plan = choose_plan(spec, device_named(device), registry, rows, {});
    RC_ASSERT(plan.ok());
    return std::pair{plan->chunk_rows, plan->chunks};
  };
  const auto alone = cut(p.spec.heads, 1, "h200", hopper_registry());
  RC_ASSERT(cut(p.spec.heads, 1 + p.rows, "h200", hopper_registry()) == alone);
  RC_ASSERT(cut(*rc::gen::inRange(1, 129), 1 + p.rows, "h100", hopper_registry()) == alone);
}

}  // namespace
}  // namespace splitwave
