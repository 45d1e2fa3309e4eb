// The replay of a trace and the stream lengths: against a loop written the slow way, and on cases
// that can be counted by hand.
#include "experiment/workload.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "experiment/streams.h"

namespace splitwave::experiment {
namespace {

Trace make_trace(const std::vector<std::pair<int, int>>& lengths, double gap_s = 0) {
  Trace trace;
  trace.name = "t";
  double at = 0;
  for (const auto& [context, generated] : lengths) {
    trace.requests.push_back({at, context, generated});
    at += gap_s;
  }
  return trace;
}

TEST(Workload, ReplaysOneTokenPerSlotAndStepInTraceOrder) {
  // Two slots. Steps: (11,21) (12,22) | 10 is done: (31,23) | 20 and 30 are done, 40 then 50: ...
  const Trace trace = make_trace({{10, 2}, {20, 3}, {30, 1}, {40, 2}, {50, 2}});
  const auto batches = replay_batches(trace, 2, 2, 1);
  ASSERT_TRUE(batches.ok()) << batches.error().message;
  // The warm-up ends when two requests have finished: after (31,23). Steps left: (41,51), (42,52).
  ASSERT_EQ(batches->size(), 2U);
  EXPECT_EQ((*batches)[0].contexts, (std::vector<int>{41, 51}));
  EXPECT_EQ((*batches)[1].contexts, (std::vector<int>{42, 52}));
}

TEST(Workload, DrawsBatchesFromTheWholeTraceAndOnlyBySeed) {
  std::vector<std::pair<int, int>> lengths;
  for (int i = 0; i < 1000; ++i) lengths.emplace_back(i * 100, 5 + i % 7);
  const Trace trace = make_trace(lengths);
  const auto a = replay_batches(trace, 5, 10, 7);
  const auto b = replay_batches(trace, 5, 10, 7);
  const auto c = replay_batches(trace, 5, 10, 8);
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_EQ(*a, *b);
  EXPECT_NE(*a, *c);
  for (int i = 0; i < 10; ++i) {  // the i-th batch comes from the i-th tenth
    const int context = (*a)[static_cast<std::size_t>(i)].contexts[0];
    EXPECT_GE(context, i * 9'900 - 1'000);
    EXPECT_LE(context, (i + 1) * 10'000 + 1'000);
  }
}

TEST(Workload, RefusesATraceThatCannotFillTheSlots) {
  const auto batches = replay_batches(make_trace({{10, 2}, {20, 3}}), 8, 4, 1);
  ASSERT_FALSE(batches.ok());
  EXPECT_NE(batches.error().message.find("2 requests keep 8 slots busy for 0 steps"),
            std::string::npos)
      << batches.error().message;
}

TEST(Workload, WeighsConcurrencyByTheTimeSpentThere) {
  // Request 0 decodes 10 steps of 10 ms; request 1 arrives at 55 ms (admitted at 60) for 2 steps.
  Trace trace = make_trace({{1, 10}, {1, 2}});
  trace.requests[1].arrival_s = 0.055;
  const std::vector<int> points = {1, 2};
  const auto mix = load_mix_from_trace(trace, points, {1, 10, 0});
  ASSERT_TRUE(mix.ok());
  EXPECT_NEAR((*mix)[0], 0.8, 1e-12);
  EXPECT_NEAR((*mix)[1], 0.2, 1e-12);
}

TEST(Workload, SplitsTheTimeBetweenTwoPointsByNearness) {
  const Trace trace = make_trace({{1, 4}, {1, 4}});  // always two active
  const std::vector<int> points = {1, 5};
  const auto mix = load_mix_from_trace(trace, points, {1, 1, 0});
  ASSERT_TRUE(mix.ok());
  EXPECT_NEAR((*mix)[0], 0.75, 1e-12);
  EXPECT_NEAR((*mix)[1], 0.25, 1e-12);
}

TEST(Workload, MovesTheMixUpWhenArrivalsSpeedUp) {
  const auto trace = read_trace(SPLITWAVE_SOURCE_DIR "/bench/traces/azure-llm-2023-code.csv");
  ASSERT_TRUE(trace.ok());
  const std::vector<int> points = {1, 2, 4, 8, 16, 32, 64, 96};
  double last_mean = 0;
  for (const double scale : {1.0, 10.0, 40.0}) {
    const auto mix = load_mix_from_trace(*trace, points, {scale, 18, 1.05});
    ASSERT_TRUE(mix.ok());
    EXPECT_NEAR(std::accumulate(mix->begin(), mix->end(), 0.0), 1, 1e-9);
    double mean = 0;
    for (std::size_t i = 0; i < points.size(); ++i) mean += (*mix)[i] * points[i];
    EXPECT_GT(mean, last_mean);
    last_mean = mean;
  }
  EXPECT_GT(last_mean, 30) << "at 40 times the arrivals the service must be crowded";
}

TEST(Streams, GiveTheLayersAndLengthsOfTheModels) {
  const auto flash = model_mix("v4-flash", 8'192);
  ASSERT_TRUE(flash.ok());
  int layers = 0;
  for (const Stream& s : flash->streams) layers += s.layers;
  EXPECT_EQ(layers, 43);
  EXPECT_EQ(flash->heads, 64);
  const Stream& c4 = flash->streams[1];
  EXPECT_EQ(main_length(c4, 100), 100);
  EXPECT_EQ(main_length(c4, 5000), 128);
  EXPECT_EQ(extra_length(c4, 1000), 250);
  EXPECT_EQ(extra_length(c4, 5000), 512);
  const Stream& c128 = flash->streams[2];
  EXPECT_EQ(c128.extra_width, 64);
  EXPECT_EQ(extra_length(c128, 8192), 64);
  EXPECT_EQ(extra_length(flash->streams[0], 5000), 0);
  EXPECT_EQ(model_mix("v4-flash", 142'848)->streams[2].extra_width, 1152);
  const auto pro = model_mix("v4-pro", 1'000'000);
  ASSERT_TRUE(pro.ok());
  EXPECT_EQ(pro->streams[0].layers + pro->streams[1].layers, 61);
  EXPECT_EQ(extra_length(pro->streams[1], 1'000'000), 7812);
}

TEST(Streams, RefuseAnUnknownModelWithTheNearestName) {
  EXPECT_EQ(model_mix("v4-flush", 1).error().message,
            "unknown model 'v4-flush' (did you mean v4-flash?): one of v4-flash, v4-pro, v32");
}

}  // namespace
}  // namespace splitwave::experiment
