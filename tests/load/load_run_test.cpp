// The load generator against a server whose timings are known: pauses are sleeps, so that measured
// times are at least the declared ones; upper bounds are loose, the machine may be busy.
#include "load/load_run.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "load/load_report.h"
#include "load/server_metrics.h"
#include "load/step_samples.h"
#include "stats/quantiles.h"
#include "stub_server.h"

namespace splitwave::load {
namespace {

using Json = nlohmann::json;

constexpr int k_first_ms = 40;
constexpr int k_gap_ms = 10;
constexpr int k_tokens_per_event = 3;  // an event is not a token

std::string event(const Json& json) { return "data: " + json.dump() + "\n\n"; }

// Streams ceil(max_tokens / 3) events of three tokens each; usage at the end, as OpenAI does.
test::StubResponse stream(const test::StubRequest& request, bool with_usage = true) {
  const int tokens = Json::parse(request.body)["max_tokens"];
  test::StubResponse out;
  out.type = "text/event-stream";
  for (int sent = 0; sent < tokens; sent += k_tokens_per_event) {
    const Json choice = {{"index", 0}, {"text", "abc"}, {"finish_reason", nullptr}};
    out.pieces.emplace_back(sent == 0 ? k_first_ms : k_gap_ms,
                            event({{"choices", {choice}}, {"usage", nullptr}}));
  }
  const Json last = {{"index", 0}, {"text", ""}, {"finish_reason", "length"}};
  std::string tail = event({{"choices", {last}}});
  if (with_usage) {
    tail += event({{"choices", Json::array()},
                   {"usage", {{"prompt_tokens", 7}, {"completion_tokens", tokens}}}});
  }
  out.pieces.emplace_back(0, tail + "data: [DONE]\n\n");
  return out;
}

LoadOptions options_for(const test::StubServer& server) {
  LoadOptions options;
  options.target = {server.url(), "stub", ""};
  options.output_tokens = 30;
  options.warmup_s = 0.2;
  options.window_s = 0.8;
  return options;
}

TEST(ClosedLoop, CountsTokensOfUsageAndTimesOfEvents) {
  std::atomic<int> steps = 0;
  const test::StubServer server([&](const test::StubRequest& request) -> test::StubResponse {
    if (request.path == "/v1/models") return {200, "application/json", {{0, "{}"}}};
    if (request.path == "/metrics") {
      steps += 50;  // 5 ms each
      const std::string text = "# HELP x\nsplitwave:steps " + std::to_string(steps) +
                               "\nsplitwave:step_seconds_total " + std::to_string(steps * 0.005) +
                               "\n";
      return {200, "text/plain", {{0, text}}};
    }
    return stream(request);
  });
  LoadOptions options = options_for(server);
  options.sessions = 2;
  const auto point = run_closed_loop(options, 4);
  ASSERT_TRUE(point.ok()) << point.error().message;
  EXPECT_EQ(point->errors, 0);
  EXPECT_EQ(server.in_flight_max(), 4);
  EXPECT_GT(point->requests, 0);
  // 30 tokens in at least 40 + 9 * 10 ms: at most 4 * 30 / 0.13 s.
  EXPECT_LE(point->tok_s, 4 * 30 / 0.13 * 1.02);
  EXPECT_GT(point->tok_s, 0);
  EXPECT_GE(stats::quantile(point->ttft_ms, 0), k_first_ms);
  EXPECT_GE(stats::quantile(point->e2e_ms, 0), 130);
  // 9 gaps over 29 tokens, not over 9 events.
  EXPECT_GE(stats::quantile(point->tpot_ms, 0.5), 90.0 / 29 * 0.9);
  for (std::size_t i = 0; i < point->tpot_ms.size(); ++i) {
    EXPECT_LE(point->ttft_ms[i] + 29 * point->tpot_ms[i], point->e2e_ms[i] + 1e-6);
  }
  EXPECT_GE(stats::quantile(point->itl_ms, 0.5), k_gap_ms * 0.8);
  EXPECT_EQ(point->step_source, "server");
  ASSERT_FALSE(point->samples.empty());
  for (const StepTime& sample : point->samples) EXPECT_NEAR(sample.step_ms, 5, 0.01);
  EXPECT_EQ(point->samples.back().session, 1);
}

TEST(ClosedLoop, WithoutCountersTheRequestsGiveTheSamples) {
  const test::StubServer server([&](const test::StubRequest& request) -> test::StubResponse {
    if (request.method == "GET") return {404, "text/plain", {{0, "no"}}};
    return stream(request);
  });
  const LoadOptions options = options_for(server);
  std::vector<LoadPoint> points;
  for (const int c : {1, 8}) {
    auto point = run_closed_loop(options, c);
    ASSERT_TRUE(point.ok()) << point.error().message;
    EXPECT_EQ(point->step_source, "tpot");
    EXPECT_FALSE(point->step_hz.has_value());
    points.push_back(std::move(*point));
  }
  EXPECT_GT(points[1].tok_s, points[0].tok_s);
  EXPECT_TRUE(scaling_violations(points, 0.02).empty());
  // What `load` writes, `fit` reads.
  const auto samples = parse_load_json(load_json({&options, points, {}, ""}), "load");
  ASSERT_TRUE(samples.ok()) << samples.error().message;
  EXPECT_EQ(samples->size(), points[0].samples.size() + points[1].samples.size());
  std::swap(points[0].tok_s, points[1].tok_s);
  EXPECT_EQ(scaling_violations(points, 0.02).size(), 1U);
}

TEST(ClosedLoop, CountsErrorsAndShowsThem) {
  std::atomic<int> number = 0;
  const test::StubServer server([&](const test::StubRequest& request) -> test::StubResponse {
    if (request.method == "GET") return {404, "text/plain", {{0, "no"}}};
    switch (++number % 3) {
      case 0:
        return {503, "application/json", {{20, "{\"error\": {\"message\": \"busy\"}}"}}};
      case 1:
        return stream(request, /*with_usage=*/false);
      default:
        return {200, "text/event-stream", {{20, "data: {\"choices\": []}\n\n"}}};
    }
  });
  const auto point = run_closed_loop(options_for(server), 3);
  ASSERT_TRUE(point.ok()) << point.error().message;
  EXPECT_GE(point->errors, 3);
  EXPECT_EQ(point->requests, 0);
  EXPECT_EQ(point->tok_s, 0);
  std::string all;
  for (const std::string& example : point->error_examples) all += example + "\n";
  EXPECT_NE(all.find("HTTP 503: {\"error\": {\"message\": \"busy\"}}"), std::string::npos) << all;
  EXPECT_NE(all.find("no usage"), std::string::npos) << all;
  EXPECT_NE(all.find("without a finish_reason"), std::string::npos) << all;
}

TEST(ResolveTarget, TakesTheFirstModelThatTheServerLists) {
  const test::StubServer server([](const test::StubRequest& request) -> test::StubResponse {
    return {200,
            "application/json",
            {{0, request.path == "/v1/models" ? R"({"data": [{"id": "m1"}, {"id": "m2"}]})" : ""}}};
  });
  EXPECT_EQ(resolve_target({server.url(), "", ""})->model, "m1");
  EXPECT_EQ(resolve_target({server.url(), "mine", ""})->model, "mine");
  const auto without = resolve_target({server.url() + "/other", "", ""});
  ASSERT_FALSE(without.ok());
  EXPECT_NE(without.error().message.find("--model"), std::string::npos);
}

TEST(ClosedLoop, SaysThatNothingListens) {
  LoadOptions options;
  options.target.url = "http://127.0.0.1:1";
  const auto point = run_closed_loop(options, 1);
  ASSERT_FALSE(point.ok());
  EXPECT_EQ(point.error().kind, ErrorKind::environment);
}

TEST(OpenLoop, SendsAtTheArrivalTimesWithSharedPrefixes) {
  std::mutex mutex;
  std::vector<std::string> prompts;
  std::vector<int> lengths;
  const test::StubServer server([&](const test::StubRequest& request) -> test::StubResponse {
    if (request.method == "GET") return {404, "text/plain", {{0, "no"}}};
    const Json body = Json::parse(request.body);
    const std::lock_guard lock(mutex);
    prompts.push_back(body["prompt"]);
    lengths.push_back(body["max_tokens"]);
    return stream(request);
  });
  LoadOptions options = options_for(server);
  options.warmup_s = 0;
  options.window_s = 0.6;
  const std::vector<Arrival> arrivals = {
      {0.0, 600, 3, {11, 12}}, {0.1, 600, 6, {11, 13}}, {0.2, 20, 9, {}}, {9.0, 20, 12, {}}};
  const auto point = run_open_loop(options, arrivals);
  ASSERT_TRUE(point.ok()) << point.error().message;
  EXPECT_EQ(point->errors, 0);
  EXPECT_EQ(point->requests, 3);  // the fourth arrives after the window
  EXPECT_EQ(lengths, (std::vector<int>{3, 6, 9}));
  const auto common = [](const std::string& a, const std::string& b) {
    return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
  };
  EXPECT_GT(common(prompts[0], prompts[1]), 512 * 3);  // one block of 512 words
  EXPECT_LT(common(prompts[0], prompts[2]), 40);
}

TEST(StepCounters, AreReadFromBothServersNames) {
  const auto own = read_step_counters("splitwave:steps 12\nsplitwave:step_seconds_total 0.5\n");
  ASSERT_TRUE(own.has_value());
  EXPECT_EQ(own->steps, 12);
  EXPECT_EQ(own->step_seconds, 0.5);
  const auto vllm = read_step_counters(
      "vllm:iteration_tokens_total_bucket{le=\"1\"} 3\n"
      "vllm:iteration_tokens_total_count{engine=\"0\"} 5.0\n"
      "vllm:iteration_tokens_total_count{engine=\"1\"} 6.0\n");
  ASSERT_TRUE(vllm.has_value());
  EXPECT_EQ(vllm->steps, 11);
  EXPECT_FALSE(vllm->step_seconds.has_value());
  EXPECT_FALSE(read_step_counters("other 1\n").has_value());
}

TEST(SseReader, GivesTheSameEventsForEveryCut) {
  const std::string text = ": ping\ndata: a\r\n\r\ndata:b\ndata: c\n\nid: 7\n\ndata:\n\ndata: cut";
  const std::vector<std::string> expected = {"a", "b\nc", ""};
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    SseReader reader;
    std::vector<std::string> events;
    reader.push(text.substr(0, cut), &events);
    reader.push(text.substr(cut), &events);
    EXPECT_EQ(events, expected) << cut;
  }
}

}  // namespace
}  // namespace splitwave::load
