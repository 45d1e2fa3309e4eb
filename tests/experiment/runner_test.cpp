// The order of a run and what ends it, on an executor without a machine.
#include "experiment/runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "experiment/fake_run.h"
#include "experiment/verdict.h"

namespace splitwave::experiment {
namespace {

using test::fake_spec;
using test::FakeExecutor;

TEST(Runner, MeasuresEverySlotTwiceAtEveryPointOfEveryRound) {
  FakeExecutor fake(fake_spec({"incumbent", "b"}, {1, 3}, 6));
  const auto record = run_experiment(fake.run, fake, {});
  ASSERT_TRUE(record.ok()) << record.error().message;
  EXPECT_EQ(record->end, RunEnd::all_rounds);
  EXPECT_TRUE(record->is_complete());
  EXPECT_EQ(record->rounds.size(), 6U);
  EXPECT_EQ(record->samples.size(), 6U * 2 * 3 * 2);
  std::set<std::tuple<int, int, int, bool>> seen;
  for (const Sample& s : record->samples) {
    EXPECT_TRUE(seen.insert({s.round, s.point, s.slot, s.mirrored}).second);
    EXPECT_EQ(s.stream_us.size(), 2U);
  }
  EXPECT_EQ(record->echoes.size(), 2U * 2 * 2);
  EXPECT_EQ(record->predictions.size(), 2U);
  EXPECT_EQ(record->predictions[1].step_us.size(), 3U);
  EXPECT_FALSE(record->sealed_sha256.empty());
}

TEST(Runner, EndsAnArmThatFailsAGateAndMeasuresTheOthers) {
  FakeExecutor fake(fake_spec({"incumbent", "wrong", "right"}, {1, 3}, 4));
  fake.gate = [](int arm, int point) {
    std::vector<GateResult> out;
    if (arm == 1 && point == 1)
      out.push_back({1, 1, "c4", "invariance", false, 1, "row 2 differs"});
    return out;
  };
  const auto record = run_experiment(fake.run, fake, {});
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->end, RunEnd::all_rounds);
  EXPECT_EQ(record->arm_ended, (std::vector<std::uint8_t>{0, 1, 0}));
  for (const Sample& s : record->samples) EXPECT_NE(s.slot, 2) << "the wrong arm was timed";
  const Verdict v = analyse(fake.run, *record);
  EXPECT_FALSE(v.arms[0].is_measured);
  EXPECT_TRUE(v.arms[1].is_measured);
}

TEST(Runner, TimesNothingWhenTheIncumbentFailsAGate) {
  FakeExecutor fake(fake_spec({"incumbent", "b"}, {1, 3}, 4));
  fake.gate = [](int arm, int) {
    return std::vector<GateResult>{{arm, 0, "c4", "accuracy", arm != 0, 1, "off"}};
  };
  const auto record = run_experiment(fake.run, fake, {});
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->end, RunEnd::no_arm_left);
  EXPECT_EQ(fake.samples, 0);
}

TEST(Runner, RefusesAnArmWhoseOverrideDidNotTakeEffect) {
  FakeExecutor fake(fake_spec({"incumbent", "b"}, {1, 3}, 4));
  fake.effect_error = "block_heads=16 was asked for, 64 runs";
  const auto record = run_experiment(fake.run, fake, {});
  ASSERT_FALSE(record.ok());
  EXPECT_EQ(record.error().kind, ErrorKind::gate);
  EXPECT_NE(record.error().message.find("16 was asked for, 64 runs"), std::string::npos);
  EXPECT_EQ(fake.samples, 0);
}

TEST(Runner, RefusesAnArmThatLaunchesWhatTheIncumbentLaunches) {
  FakeExecutor fake(fake_spec({"incumbent", "b"}, {1, 3}, 4));
  fake.arms_take_effect = false;
  const auto record = run_experiment(fake.run, fake, {});
  ASSERT_FALSE(record.ok());
  EXPECT_NE(record.error().message.find("did not take effect"), std::string::npos);
}

TEST(Runner, KeepsWholeRoundsOnlyWhenInterrupted) {
  FakeExecutor fake(fake_spec({"incumbent", "b"}, {1, 3}, 50));
  std::atomic<bool> interrupted{false};
  const int per_round = 2 * 3 * 2;
  fake.before_sample = [&](int samples) {
    if (samples == 3 * per_round + 5) interrupted = true;
    return Status();
  };
  const auto record = run_experiment(fake.run, fake, {&interrupted, false});
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->end, RunEnd::interrupted);
  EXPECT_FALSE(record->is_complete());
  EXPECT_EQ(record->end_detail, "after 3 of 50 rounds");
  EXPECT_EQ(record->samples.size(), 3U * per_round);
}

TEST(Runner, KeepsWhatWasMeasuredWhenTheBackendFails) {
  FakeExecutor fake(fake_spec({"incumbent", "b"}, {1, 3}, 50));
  fake.before_sample = [&](int samples) {
    return samples == 30 ? Status(environment_error("the device fell off the bus")) : Status();
  };
  const auto record = run_experiment(fake.run, fake, {});
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->end, RunEnd::error);
  EXPECT_EQ(record->end_detail, "the device fell off the bus (after 2 of 50 rounds)");
  EXPECT_EQ(record->samples.size(), 24U);
}

TEST(Runner, CatchesAPlantedSlowArm) {
  FakeExecutor fake(fake_spec({"incumbent", "planted"}, {1, 3}, 30));
  fake.run.arms[1].planted = Planted::slow;
  fake.speed = [](int arm, int) { return arm == 1 ? 1.05 : 1.0; };
  const auto record = run_experiment(fake.run, fake, {});
  ASSERT_TRUE(record.ok());
  for (const PointVerdict& p : analyse(fake.run, *record).points) {
    EXPECT_EQ(p.effect, stats::Effect::slower);
  }
}

TEST(Runner, DescribesScheduleCostAndEndOfADryRun) {
  FakeExecutor fake(fake_spec({"incumbent", "b"}, {1, 3}, 10));
  const auto text = describe_run(fake.run, fake);
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_NE(text->find("round 0: C"), std::string::npos) << *text;
  EXPECT_NE(text->find("10 rounds, 120 samples"), std::string::npos) << *text;
  EXPECT_NE(text->find("it would end about 2"), std::string::npos) << *text;
  EXPECT_EQ(fake.samples, 0);
}

}  // namespace
}  // namespace splitwave::experiment
