// The SPLITWAVE_ variables: each value, each refusal, and the merge with a caller's overrides.
#include "runtime/environment.h"

#include <gtest/gtest.h>

namespace splitwave {
namespace {

std::string refusal(const std::vector<std::string>& entries) {
  const Expected<Environment> read = parse_environment(entries);
  if (read.ok()) return "accepted";
  EXPECT_EQ(read.error().kind, ErrorKind::bad_input);
  return read.error().message;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Environment, ReadsEachOfTheFiveVariables) {
  const auto read = parse_environment({"PATH=/bin", "SPLITWAVE_BACKEND=cpu",
                                       "SPLITWAVE_PLAN=mode=free,target_ctas=512",
                                       "SPLITWAVE_THREADS=3", "SPLITWAVE_TRACE=plan",
                                       "SPLITWAVE_STATE_DIR=/tmp/a=b"});
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->backend, Backend::cpu);
  EXPECT_EQ(read->plan.mode, SplitMode::free);
  EXPECT_EQ(read->plan.target_ctas, 512);
  EXPECT_EQ(read->threads, 3);
  EXPECT_TRUE(read->trace_plan);
  EXPECT_EQ(read->state_dir, "/tmp/a=b");
}

TEST(Environment, TakesAnEmptyValueAsUnset) {
  const auto read = parse_environment({"SPLITWAVE_BACKEND=", "SPLITWAVE_THREADS="});
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->backend, Backend::auto_detect);
  EXPECT_FALSE(read->threads.has_value());
}

TEST(Environment, RefusesAnUnknownNameAndSuggestsTheNearest) {
  const std::string message = refusal({"SPLITWAVE_BACKENDS=cpu"});
  EXPECT_TRUE(contains(message, "SPLITWAVE_BACKENDS")) << message;
  EXPECT_TRUE(contains(message, "did you mean SPLITWAVE_BACKEND?")) << message;
  EXPECT_TRUE(contains(refusal({"SPLITWAVE_DEBUG="}), "SPLITWAVE_DEBUG"));
}

TEST(Environment, RefusesAnUnknownValueAndNamesWhatWorks) {
  EXPECT_TRUE(contains(refusal({"SPLITWAVE_BACKEND=gpu"}), "auto, cpu, cuda"));
  EXPECT_TRUE(contains(refusal({"SPLITWAVE_TRACE=1"}), "plan"));
  EXPECT_TRUE(contains(refusal({"SPLITWAVE_PLAN=modes=free"}), "SPLITWAVE_PLAN: "));
}

TEST(Environment, RefusesThreadCountsThatAreNotIntegersInRange) {
  for (const char* value : {"0", "-1", "1025", "2x", " 2", "1e3"}) {
    const std::string message = refusal({std::string("SPLITWAVE_THREADS=") + value});
    EXPECT_TRUE(contains(message, std::string("'") + value + "'")) << message;
    EXPECT_TRUE(contains(message, "1..1024")) << message;
  }
}

TEST(Environment, MergesOverridesFieldByField) {
  PlanOverrides base;
  base.mode = SplitMode::free;
  base.target_ctas = 512;
  base.prefetch = 4;
  PlanOverrides over;
  over.prefetch = 0;
  over.variant = "cpu_v4_avx2_h64";
  const PlanOverrides result = merged(base, over);
  EXPECT_EQ(result.mode, SplitMode::free);
  EXPECT_EQ(result.target_ctas, 512);
  EXPECT_EQ(result.prefetch, 0);
  EXPECT_EQ(result.variant, "cpu_v4_avx2_h64");
}

// A field added to PlanOverrides and forgotten in merged() would be dropped in silence.
TEST(Environment, MergesEveryField) {
  PlanOverrides all;
  all.mode = SplitMode::free;
  all.numerics = NumericsClass::latency;
  all.target_ctas = 1;
  all.block_heads = 2;
  all.tile_rows = 3;
  all.warps = 4;
  all.stages = 5;
  all.ctas_per_sm = 6;
  all.chunk_rows = 7;
  all.prefetch = 8;
  all.overlap = 1;
  all.variant = "v";
  EXPECT_EQ(merged({}, all), all);
  EXPECT_EQ(merged(all, {}), all);
}

}  // namespace
}  // namespace splitwave
