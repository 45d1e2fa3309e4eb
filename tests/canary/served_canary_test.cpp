// The corruption gate against the real server with a fake engine behind it: extensions, scheduler,
// prompt encoding and the gate agree, an honest engine passes at C96, and an engine that goes wrong
// only in company is caught at C96 for every fault and seed.
#include <gtest/gtest.h>

#include "canary/served_engine.h"
#include "load/canary.h"
#include "load/load_report.h"
#include "load/load_run.h"
#include "load/step_samples.h"

namespace splitwave::test {
namespace {

constexpr int k_sessions = 24;
constexpr int k_concurrency = 96;
constexpr int k_seeds = 20;

load::CanaryOptions options_for(const ServedEngine& served) {
  load::CanaryOptions options;
  options.target = *load::resolve_target({served.url(), "", ""});
  options.concurrency = k_concurrency;
  options.output_tokens = 8;
  return options;
}

const std::vector<load::CanarySession>& conversations() {
  static const auto sessions = *load::canary_sessions(k_sessions, 2, 1);
  return sessions;
}

// One solo run for all tests: an honest engine answers the same every time.
const load::SoloRun& solo() {
  static const load::SoloRun run = [] {
    const ServedEngine served(model::SeededFault::none);
    auto made = load::run_solo(conversations(), options_for(served), nullptr);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return std::move(*made);
  }();
  return run;
}

load::CanaryReport crowd(model::SeededFault fault, std::uint64_t seed, bool stops_at_first) {
  const ServedEngine served(fault, seed);
  load::CanaryOptions options = options_for(served);
  options.stops_at_first = stops_at_first;
  const auto report = load::run_crowd(conversations(), solo(), options, nullptr);
  EXPECT_TRUE(report.ok()) << report.error().message;
  return *report;
}

TEST(ServedCanary, PassesAnHonestEngineAtC96) {
  const load::CanaryReport report = crowd(model::SeededFault::none, 1, false);
  EXPECT_TRUE(report.passed()) << load::canary_text(report);
  EXPECT_EQ(report.level, "logits");
  EXPECT_EQ(report.steps, std::int64_t{8} * report.turns);
}

// The load generator on the same server: usage, the step counters by their real names, and samples
// that fit reads.
TEST(ServedLoad, ReadsTheServersUsageAndStepCounters) {
  const ServedEngine served(model::SeededFault::none);
  load::LoadOptions options;
  options.target = options_for(served).target;
  options.prompt_tokens = 40;
  options.output_tokens = 12;
  options.warmup_s = 0.1;
  options.window_s = 0.9;
  const auto point = load::run_closed_loop(options, 8);
  ASSERT_TRUE(point.ok()) << point.error().message;
  EXPECT_EQ(point->errors, 0) << (point->error_examples.empty() ? "" : point->error_examples[0]);
  EXPECT_GT(point->requests, 0);
  EXPECT_GT(point->tok_s, 0);
  EXPECT_EQ(point->step_source, "server");
  ASSERT_TRUE(point->step_hz.has_value());
  EXPECT_GT(*point->step_hz, 0);
  const std::vector<load::LoadPoint> points = {*point};
  const auto samples = load::parse_load_json(load::load_json({&options, points, {}, ""}), "load");
  ASSERT_TRUE(samples.ok()) << samples.error().message;
  EXPECT_EQ(samples->size(), point->samples.size());
}

class EveryFault : public testing::TestWithParam<model::SeededFault> {};

TEST_P(EveryFault, IsCaughtAtC96OnEverySeed) {
  for (std::uint64_t seed = 1; seed <= k_seeds; ++seed) {
    const load::CanaryReport report = crowd(GetParam(), seed, true);
    EXPECT_FALSE(report.passed()) << "seed " << seed;
    ASSERT_TRUE(report.first_divergence.has_value()) << "seed " << seed;
    EXPECT_EQ(report.first_divergence->level, "logits");
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, EveryFault,
                         testing::Values(model::SeededFault::swapped_pages,
                                         model::SeededFault::dropped_dependency,
                                         model::SeededFault::stale_stride,
                                         model::SeededFault::shared_scratch,
                                         model::SeededFault::flipped_bit));

}  // namespace
}  // namespace splitwave::test
