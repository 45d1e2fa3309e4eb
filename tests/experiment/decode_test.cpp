// The real executor on the CPU backend: inputs, gates, planted faults, read-back.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "experiment/decode_executor.h"
#include "experiment/decode_inputs.h"
#include "experiment/gates.h"
#include "experiment/launch_echo.h"
#include "experiment/runner.h"
#include "experiment/verdict.h"
#include "formats/index_list.h"

namespace splitwave::experiment {
namespace {

// Small heads and widths: the double reference of the accuracy gate stays fast.
RunSpec small_run() {
  RunSpec run;
  run.slug = "0000-test";
  run.backend = "cpu";
  run.threads = 2;
  run.model = "v4-flash";
  run.heads = 8;
  run.streams = {{"window", 2, 128, 0, 0}, {"c4", 21, 128, 4, 256}};
  run.arms = {{"incumbent", "", Planted::none, 0},
              {"free", "mode=free,target_ctas=8", Planted::none, 0}};
  run.points = {{1, 0.5, {{{700}}, {{90}}}}, {3, 0.5, {{{700, 0, 2000}}, {{5, 600, 300}}}}};
  run.stopping = {StopRule::fixed, 4, 4, 0.05};
  run.analysis.resamples = 1'000;
  run.sample_us_min = 50;
  return run;
}

TEST(DecodeInputs, GiveEachRowTheLengthsOfItsContext) {
  const RunSpec run = small_run();
  const auto in = StreamInputs::make(run, 1, 1 << 20);
  ASSERT_TRUE(in.ok()) << in.error().message;
  const DecodeCall call = in->call(1, 0, 0);
  EXPECT_EQ(call.rows, 3);
  EXPECT_EQ(std::vector<int>(call.main_list.lengths, call.main_list.lengths + 3),
            (std::vector<int>{128, 0, 128}));
  EXPECT_EQ(std::vector<int>(call.extra_list.lengths, call.extra_list.lengths + 3),
            (std::vector<int>{175, 0, 256}));
}

// Every entry within a length is a slot of the pool, distinct within its row and ascending in the
// row's own order; the rows of a set share no slot, the sets of a batch share none.
TEST(DecodeInputs, NameEverySlotOnceAcrossTheSetsOfABatch) {
  RunSpec run = small_run();
  const auto in = StreamInputs::make(run, 1, 4 << 20);
  ASSERT_TRUE(in.ok()) << in.error().message;
  for (const int point : {0, 1}) {
    ASSERT_GE(in->sets(point), 2) << "cold needs rotation";
    EXPECT_GE(in->sets(point) * in->touched_bytes(point), 2.0 * (4 << 20)) << "twice the cache";
    for (int batch = 0; batch < 2; ++batch) {
      std::set<int> main_seen;
      std::set<int> extra_seen;
      for (int set = 0; set < in->sets(point); ++set) {
        const DecodeCall call = in->call(point, batch, set);
        for (int row = 0; row < call.rows; ++row) {
          for (int i = 0; i < call.main_list.lengths[row]; ++i) {
            const int slot = list_entry(call.main_list, row, i);
            ASSERT_TRUE(is_valid_slot(call.main_cache, slot));
            ASSERT_TRUE(main_seen.insert(slot).second);
          }
          for (int i = 0; i < call.extra_list.lengths[row]; ++i) {
            const int slot = list_entry(call.extra_list, row, i);
            ASSERT_TRUE(is_valid_slot(call.extra_cache, slot));
            ASSERT_TRUE(extra_seen.insert(slot).second);
          }
          for (int i = call.extra_list.lengths[row]; i < 256; ++i) {
            ASSERT_EQ(list_entry(call.extra_list, row, i), -1);
          }
        }
      }
    }
  }
}

TEST(DecodeInputs, FollowTheLocality) {
  RunSpec run = small_run();
  run.cache = CacheState::warm;
  run.locality = Locality::contiguous;
  const auto line = StreamInputs::make(run, 1, 1 << 20);
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(line->sets(1), 1) << "warm: one set";
  const DecodeCall call = line->call(1, 0, 0);
  for (int i = 1; i < 256; ++i) {
    EXPECT_EQ(list_entry(call.extra_list, 2, i), list_entry(call.extra_list, 2, i - 1) + 1);
  }
  run.locality = Locality::shared;
  const auto shared = StreamInputs::make(run, 0, 1 << 20);
  ASSERT_TRUE(shared.ok());
  const DecodeCall window = shared->call(1, 0, 0);
  const int a = list_entry(window.main_list, 0, 127) / run.main_page_size;
  std::set<int> pages;
  for (int i = 0; i < 128; ++i)
    pages.insert(list_entry(window.main_list, 2, i) / run.main_page_size);
  EXPECT_TRUE(pages.count(a) != 0) << "rows draw from the same pages";
}

TEST(DecodeInputs, DependOnTheSeedAlone) {
  RunSpec run = small_run();
  const auto a = StreamInputs::make(run, 1, 1 << 20);
  const auto b = StreamInputs::make(run, 1, 1 << 20);
  run.seed = 2;
  const auto c = StreamInputs::make(run, 1, 1 << 20);
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(std::ranges::equal(a->blocks()[i], b->blocks()[i])) << i;
    EXPECT_FALSE(std::ranges::equal(a->blocks()[i], c->blocks()[i])) << i;
  }
}

TEST(DecodeExecutor, PassesEveryGateAndReadsBackWhatRuns) {
  const RunSpec run = small_run();
  auto executor = make_decode_executor(run);
  ASSERT_TRUE(executor.ok()) << executor.error().message;
  const auto record = run_experiment(run, **executor, {});
  ASSERT_TRUE(record.ok()) << record.error().message;
  EXPECT_EQ(record->end, RunEnd::all_rounds) << record->end_detail;
  std::set<std::tuple<int, std::string>> gates;
  for (const GateResult& g : record->gates) {
    EXPECT_TRUE(g.passed) << g.gate << ": " << g.detail;
    gates.insert({g.arm, g.gate});
  }
  EXPECT_TRUE(gates.count({0, "invariance"}) && gates.count({0, "accuracy"}) &&
              gates.count({0, "repeat"}) && gates.count({1, "accuracy"}) &&
              gates.count({1, "repeat"}));
  EXPECT_FALSE(gates.count({1, "invariance"})) << "a free arm's bits depend on the batch";
  bool has_free = false;
  for (const Echo& e : record->echoes) has_free = has_free || (e.arm == 1 && !e.is_exact);
  EXPECT_TRUE(has_free);
  EXPECT_NE(record->fingerprint_before.find("cpu_model"), std::string::npos);
  EXPECT_EQ(record->executable_sha256.size(), 64U);
}

// Planted faults: every arm that holds one must be ended by a gate, and the incumbent never.
TEST(DecodeExecutor, CatchesOneFlippedBitInOneRowOfOneCall) {
  for (const std::string plan : {"block_heads=8", "mode=free,target_ctas=8"}) {
    RunSpec run = small_run();
    run.arms[1] = {"planted", plan, Planted::flip_bit, 0};
    auto executor = make_decode_executor(run);
    ASSERT_TRUE(executor.ok()) << executor.error().message;
    const auto record = run_experiment(run, **executor, {});
    ASSERT_TRUE(record.ok()) << record.error().message;
    EXPECT_EQ(record->end, RunEnd::no_arm_left);
    EXPECT_EQ(record->arm_ended, (std::vector<std::uint8_t>{0, 1}));
    EXPECT_TRUE(record->samples.empty()) << "a wrong arm was timed";
    const bool is_exact = plan == "block_heads=8";
    const bool is_caught =
        std::any_of(record->gates.begin(), record->gates.end(), [&](const GateResult& g) {
          return !g.passed && g.gate == (is_exact ? "invariance" : "repeat") && g.worst >= 1;
        });
    EXPECT_TRUE(is_caught) << plan;
  }
}

TEST(DecodeExecutor, CatchesOneKeyDroppedInOneRowAndHead) {
  RunSpec run = small_run();
  run.arms[1] = {"planted", "block_heads=8", Planted::drop_key, 0};
  auto executor = make_decode_executor(run);
  ASSERT_TRUE(executor.ok()) << executor.error().message;
  const auto record = run_experiment(run, **executor, {});
  ASSERT_TRUE(record.ok()) << record.error().message;
  EXPECT_EQ(record->arm_ended, (std::vector<std::uint8_t>{0, 1}));
  for (const GateResult& g : record->gates) {
    if (g.arm != 1) continue;
    EXPECT_EQ(g.passed, g.gate != "accuracy")
        << g.gate << ": the fault is the same in every call, only the reference shows it";
  }
}

TEST(DecodeExecutor, SlowsAPlantedArmDown) {
  RunSpec run = small_run();
  run.arms[1] = {"planted", "block_heads=8", Planted::slow, 50};
  run.stopping = {StopRule::fixed, 12, 12, 0.05};
  run.sample_us_min = 1000;
  auto executor = make_decode_executor(run);
  ASSERT_TRUE(executor.ok()) << executor.error().message;
  const auto record = run_experiment(run, **executor, {});
  ASSERT_TRUE(record.ok()) << record.error().message;
  const Verdict v = analyse(run, *record);
  ASSERT_EQ(v.arms.size(), 1U);
  EXPECT_LT(v.arms[0].score.estimate, -0.2) << "50 % slower on a machine however noisy";
}

TEST(DecodeExecutor, RefusesAnEnvironmentThatWouldChangeEveryArm) {
  ASSERT_EQ(setenv("SPLITWAVE_PLAN", "block_heads=8", 1), 0);
  const auto executor = make_decode_executor(small_run());
  unsetenv("SPLITWAVE_PLAN");
  ASSERT_FALSE(executor.ok());
  EXPECT_EQ(executor.error().kind, ErrorKind::bad_input);
  EXPECT_NE(executor.error().message.find("SPLITWAVE_PLAN is set to 'block_heads=8'"),
            std::string::npos);
}

TEST(DecodeExecutor, RefusesAPlanThatNoVariantHonoursWithTheArmsName) {
  RunSpec run = small_run();
  run.arms[1].plan = "block_heads=7";
  const auto executor = make_decode_executor(run);
  ASSERT_FALSE(executor.ok());
  EXPECT_EQ(executor.error().message.rfind("arm free, stream window: ", 0), 0U)
      << executor.error().message;
}

TEST(LaunchEcho, NamesAnOverrideThatIsNotInTheEffectivePlan) {
  ProblemSpec spec;
  spec.heads = 8;
  spec.extra_width = 256;
  spec.rows_max = 4;
  DecoderOptions options;
  options.backend = Backend::cpu;
  options.threads = 1;
  options.read_environment = false;
  auto decoder = Decoder::create(spec, options);
  ASSERT_TRUE(decoder.ok()) << decoder.error().message;
  const Plan& plan = decoder->plan_for(2);
  PlanOverrides overrides;
  EXPECT_EQ(override_mismatch(overrides, *decoder, 2), "");
  overrides.prefetch = plan.prefetch;
  EXPECT_EQ(override_mismatch(overrides, *decoder, 2), "");
  overrides.prefetch = plan.prefetch + 1;
  EXPECT_EQ(override_mismatch(overrides, *decoder, 2),
            "prefetch=" + std::to_string(plan.prefetch + 1) + " was asked for, " +
                std::to_string(plan.prefetch) + " runs");
  overrides = {};
  overrides.mode = SplitMode::free;
  EXPECT_EQ(override_mismatch(overrides, *decoder, 2), "mode=free was asked for, exact runs");
  overrides = {};
  overrides.variant = "nonesuch";
  EXPECT_NE(override_mismatch(overrides, *decoder, 2), "");
}

}  // namespace
}  // namespace splitwave::experiment
