// The gate against servers whose every kind of misbehaviour is planted: each must be caught, named
// and placed, and an honest server must pass.
#include "load/canary.h"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <set>

#include "load/canary_turn.h"
#include "stub_server.h"

namespace splitwave::load {
namespace {

using Json = nlohmann::json;

enum class Fault {
  none,
  logits_only,    // one step's logits, the tokens stay
  token,          // one token and what follows
  sampler,        // equal logits, another token
  leak,           // the text of another session
  bad_tool_call,  // cut arguments
  needle_lost,
  error,  // HTTP 500
};

// A model whose output is a function of the request's body alone, until the fault strikes: when
// more than one request is in flight, in the third turn.
class FakeModel {
 public:
  explicit FakeModel(Fault fault, bool has_extensions = true)
      : fault_(fault), has_extensions_(has_extensions) {}

  test::StubResponse answer(const test::StubRequest& request) {
    Json body = Json::parse(request.body);
    const bool is_forced = body.contains("forced_token_ids");
    body.erase("forced_token_ids");
    const int crowd = ++in_flight_;
    const Json& messages = body["messages"];
    const std::string system = messages[0]["content"];
    const std::string last = messages.back()["content"];
    const std::uint64_t seed = std::hash<std::string>{}(body.dump());
    // Forced to the solo tokens, a fault of one token is not seen again.
    const bool strikes =
        is_crowd_ && messages.size() > 8 && crowd >= 1 && !(is_forced && fault_ == Fault::token);
    test::StubResponse response = {200, "application/json", {}};
    if (strikes && fault_ == Fault::error) {
      response.status = 500;
      response.pieces.emplace_back(1, "{\"error\": {\"message\": \"boom\"}}");
    } else {
      response.pieces.emplace_back(1, completion(seed, system, last, strikes).dump());
    }
    --in_flight_;
    return response;
  }

  void begin_crowd() { is_crowd_ = true; }

 private:
  Json completion(std::uint64_t seed, const std::string& system, const std::string& last,
                  bool strikes) const {
    std::vector<int> tokens;
    std::vector<std::string> hashes;
    for (int step = 0; step < 6; ++step) {
      tokens.push_back(static_cast<int>((seed >> step * 8) % 1000));
      hashes.push_back(std::to_string(seed ^ static_cast<std::uint64_t>(step)));
    }
    std::string text = "out";
    if (last.starts_with("Repeat")) text = system.substr(system.rfind(' ') + 1);  // "id-..."
    const auto phrase = last.find("phrase is ");
    if (phrase != std::string::npos && !(is_crowd_ && fault_ == Fault::needle_lost)) {
      text = last.substr(phrase + 10, 23);
    }
    if (strikes && fault_ == Fault::logits_only) hashes[4] += "x";
    if (strikes && fault_ == Fault::token) {
      for (std::size_t i = 2; i < 6; ++i) ++tokens[i];
      for (std::size_t i = 2; i < 6; ++i) hashes[i] += "y";
    }
    if (strikes && fault_ == Fault::sampler) ++tokens[3];
    if (strikes && fault_ == Fault::leak) text = canary_sessions(8, 0, 1)->at(7).identifier;
    Json message = {{"role", "assistant"}, {"content", text}};
    const bool cut = strikes && fault_ == Fault::bad_tool_call;
    message["tool_calls"] = {
        {{"id", "call_" + std::to_string(seed % 7)},
         {"type", "function"},
         {"function", {{"name", cut ? "nothing" : "cd"}, {"arguments", cut ? "{" : "{}"}}}}};
    Json choice = {{"index", 0}, {"message", message}, {"finish_reason", "length"}};
    if (has_extensions_) {
      choice["token_ids"] = tokens;
      choice["logit_hashes"] = hashes;
    }
    return {{"choices", {choice}}, {"usage", {{"prompt_tokens", 5}, {"completion_tokens", 6}}}};
  }

  Fault fault_;
  bool has_extensions_;
  std::atomic<bool> is_crowd_{false};
  std::atomic<int> in_flight_{0};
};

CanaryReport run(Fault fault, int sessions = 6, int concurrency = 6, bool has_extensions = true) {
  FakeModel model(fault, has_extensions);
  const test::StubServer server(
      [&](const test::StubRequest& request) { return model.answer(request); });
  const auto conversations = *canary_sessions(sessions, 2, 1);
  CanaryOptions options;
  options.target = {server.url(), "fake", ""};
  options.concurrency = concurrency;
  const auto solo = run_solo(conversations, options, nullptr);
  EXPECT_TRUE(solo.ok()) << solo.error().message;
  model.begin_crowd();
  const auto report = run_crowd(conversations, *solo, options, nullptr);
  EXPECT_TRUE(report.ok()) << report.error().message;
  EXPECT_LE(server.in_flight_max(), concurrency);
  return *report;
}

TEST(Canary, PassesAnHonestServerAndStatesTheExactBound) {
  const CanaryReport report = run(Fault::none);
  EXPECT_TRUE(report.passed()) << canary_text(report);
  EXPECT_EQ(report.corrupted, 0);
  EXPECT_EQ(report.level, "logits");
  EXPECT_FALSE(report.first_divergence.has_value());
  EXPECT_NEAR(report.upper_bound_95, 1 - std::pow(0.05, 1.0 / 6), 1e-12);
  EXPECT_EQ(report.crowd_echoes, 6);
  EXPECT_EQ(report.crowd_needles, 2);
  EXPECT_GT(report.crowd_tool_calls, 0);
  const Json json = Json::parse(canary_json(report));
  EXPECT_EQ(json["sessions"], 6);
  EXPECT_EQ(json["corrupted"], 0);
  EXPECT_TRUE(json["first_divergence"].is_null());
  EXPECT_NEAR(json["upper_bound_95"], report.upper_bound_95, 1e-12);
}

TEST(Canary, PlacesADifferenceInTheLogitsThatNoTokenShows) {
  const CanaryReport report = run(Fault::logits_only);
  EXPECT_FALSE(report.passed());
  EXPECT_GT(report.corrupted, 0);
  EXPECT_EQ(report.other_tokens, 0);
  ASSERT_TRUE(report.first_divergence.has_value());
  EXPECT_EQ(report.first_divergence->session, 0);
  EXPECT_EQ(report.first_divergence->session_id, "multi_turn_base_0");
  EXPECT_EQ(report.first_divergence->turn, 3);
  EXPECT_EQ(report.first_divergence->step, 4);
  EXPECT_EQ(report.first_divergence->level, "logits");
  EXPECT_GT(report.forced_turns, 0);  // forced, the same step differs again
  EXPECT_EQ(report.forced_steps_differing, report.forced_turns);
  EXPECT_EQ(Json::parse(canary_json(report))["first_divergence"]["step"], 4);
}

TEST(Canary, PlacesADifferenceInTheTokens) {
  const CanaryReport token = run(Fault::token);
  EXPECT_FALSE(token.passed());
  EXPECT_EQ(token.first_divergence->step, 2);
  EXPECT_EQ(token.other_tokens, token.corrupted);
  EXPECT_GT(token.forced_turns, 0);
  EXPECT_EQ(token.forced_steps_differing, 0);
  const CanaryReport sampler = run(Fault::sampler);
  EXPECT_FALSE(sampler.passed());
  EXPECT_EQ(sampler.first_divergence->level, "tokens");
  EXPECT_EQ(sampler.first_divergence->step, 3);
}

TEST(Canary, ScansForIdentifiersOfOtherSessions) {
  // Session 7 is not among the six: nothing to leak to. With eight it is.
  const CanaryReport report = run(Fault::leak, 8, 8);
  EXPECT_FALSE(report.passed());
  ASSERT_FALSE(report.leaks.empty());
  EXPECT_EQ(report.leaks.front(), "multi_turn_base_0 shows the identifier of multi_turn_base_7");
}

TEST(Canary, JudgesToolCallsAndNeedlesAgainstTheSoloRun) {
  const CanaryReport calls = run(Fault::bad_tool_call, 6, 6, /*has_extensions=*/false);
  EXPECT_FALSE(calls.passed());
  EXPECT_EQ(calls.level, "text");
  EXPECT_GT(calls.crowd_bad_tool_calls, calls.solo_bad_tool_calls);
  const CanaryReport needles = run(Fault::needle_lost);
  EXPECT_FALSE(needles.passed());
  EXPECT_EQ(needles.solo_needles, 2);
  EXPECT_EQ(needles.crowd_needles, 0);
  EXPECT_EQ(needles.corrupted, 0);
  EXPECT_EQ(needles.corrupted_needles, 2);
}

TEST(Canary, DoesNotPassWhatItCouldNotJudge) {
  const CanaryReport report = run(Fault::error);
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.corrupted, 0);
  EXPECT_GT(report.unjudged, 0);
  EXPECT_NE(report.errors.front().find("HTTP 500"), std::string::npos);
}

TEST(Canary, FillsTheCrowdWithReplaysAndStopsAtTheFirstDivergence) {
  const CanaryReport all = run(Fault::none, 3, 20);  // 5 conversations, 4 replays each
  EXPECT_TRUE(all.passed()) << canary_text(all);
  EXPECT_EQ(all.turns % 4, 0);
  FakeModel model(Fault::token);
  const test::StubServer server(
      [&](const test::StubRequest& request) { return model.answer(request); });
  const auto conversations = *canary_sessions(6, 0, 1);
  CanaryOptions options;
  options.target = {server.url(), "fake", ""};
  options.concurrency = 2;
  options.stops_at_first = true;
  const auto solo = run_solo(conversations, options, nullptr);
  model.begin_crowd();
  const auto report = run_crowd(conversations, *solo, options, nullptr);
  EXPECT_FALSE(report->passed());
  int turns = 0;
  for (const CanarySession& s : conversations) turns += static_cast<int>(s.turns.size());
  EXPECT_LT(report->turns, turns);
}

TEST(CanarySoloFile, ComesBackAsItWasAndIsRefusedForAnotherRun) {
  const auto conversations = *canary_sessions(1, 0, 1);
  SoloRun solo;
  solo.seconds = 2.5;
  solo.sessions.emplace_back(conversations[0].turns.size(),
                             TurnOutput{"t\xC3\xA9", {1, 2}, {"ff"}, 9, 1, 1});
  const std::string text = solo_json(solo, 1);
  const auto read = read_solo_json(text, "solo.json", conversations, 1);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->sessions, solo.sessions);
  EXPECT_FALSE(read_solo_json(text, "solo.json", conversations, 2).ok());
  EXPECT_FALSE(read_solo_json(text, "solo.json", *canary_sessions(2, 0, 1), 1).ok());
  EXPECT_FALSE(read_solo_json("{}", "solo.json", conversations, 1).ok());
}

TEST(CanarySessions, AreTheRecordedOnesWithIdentifiersOfTheirOwn) {
  const auto all = *canary_sessions(240, 4, 1);
  ASSERT_EQ(all.size(), 244U);
  std::set<std::string> identifiers;
  for (const CanarySession& s : all) {
    EXPECT_TRUE(identifiers.insert(s.identifier).second);
    EXPECT_GE(s.turns.size(), s.is_needle ? 1U : 2U);
    EXPECT_EQ(s.tools.empty(), s.is_needle);
  }
  EXPECT_EQ(canary_sessions(2, 0, 1)->at(1).identifier, all[1].identifier);
  EXPECT_NE(canary_sessions(2, 0, 2)->at(1).identifier, all[1].identifier);
  EXPECT_FALSE(canary_sessions(241, 0, 1).ok());
}

TEST(CanaryTurn, SendsTheSoloHistoryWithToolsAndResults) {
  const auto session = canary_sessions(1, 0, 1)->front();
  const std::vector<TurnOutput> before = {{"first", {}, {}, 0, 0, 0}};
  const Json body = Json::parse(canary_request(session, before, 1, {}));
  ASSERT_EQ(body["messages"].size(), 5U);  // system, user, assistant, tool, user
  EXPECT_EQ(body["messages"][2]["content"], "first");
  EXPECT_EQ(body["messages"][3]["tool_call_id"], body["messages"][2]["tool_calls"][0]["id"]);
  EXPECT_EQ(body["tools"].size(), session.tools.size());
  EXPECT_TRUE(body["return_token_ids"]);
  EXPECT_FALSE(read_canary_answer("[]", session).ok());
  EXPECT_FALSE(read_canary_answer("{\"choices\": [{}]}", session).ok());
}

}  // namespace
}  // namespace splitwave::load
