// `project`'s arithmetic, and the source's claims: each cross-check of the golden file must be
// named.
#include "plan/projection.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace splitwave {
namespace {

ProjectionInput source_input() {
  std::ifstream file(std::string(SPLITWAVE_SOURCE_DIR) + "/tests/data/occupancy-golden.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  const nlohmann::json& model = golden["step_model"];
  const nlohmann::json& projected = model["projected"];
  ProjectionInput in;
  in.fixed_ms = model["fixed_ms"];
  in.marginal_ms = model["marginal_ms_per_request"];
  in.share_ms = model["attention_share_ms_per_request"];
  in.speedup = {projected["attention_speedup"][0], projected["attention_speedup"][1]};
  in.at = {64, 96};
  for (const auto& point : golden["points"]) {
    if (point["target_ctas"] != 512 || point["decode_tok_s"].is_null()) continue;
    in.measured.push_back({point["batch"].get<int>(), point["decode_tok_s"].get<double>()});
  }
  in.claim_marginal_ms = {{projected["marginal_ms"][0], projected["marginal_ms"][1]}};
  in.claim_tok_s = {{projected["tok_s_at_96"][0], projected["tok_s_at_96"][1]}};
  return in;
}

// Whether one inconsistency of the kind holds all the parts.
bool names(const Projection& p, const std::string& kind, const std::vector<std::string>& parts) {
  for (const Inconsistency& i : p.inconsistencies) {
    bool all = i.kind == kind;
    for (const std::string& part : parts) all = all && i.text.find(part) != std::string::npos;
    if (all) return true;
  }
  return false;
}

std::string all_texts(const Projection& p) {
  std::string text;
  for (const Inconsistency& i : p.inconsistencies) text += i.kind + ": " + i.text + "\n";
  return text;
}

TEST(Projection, GivesTheEnvelopeOfTheSourcesAssumedSpeedUp) {
  const Projection p = project(source_input()).value();
  EXPECT_NEAR(p.marginal_ms.high, 0.892, 5e-4);
  EXPECT_NEAR(p.marginal_ms.low, 0.6989, 5e-4);
  ASSERT_EQ(p.points.size(), 2U);
  const ProjectedPoint& at96 = p.points[1];
  EXPECT_EQ(at96.concurrency, 96);
  EXPECT_NEAR(at96.line_tok_s, 808.1, 0.1);
  EXPECT_NEAR(at96.tok_s.low, 926.3, 0.5);
  EXPECT_NEAR(at96.tok_s.high, 1128.2, 0.5);
  EXPECT_NEAR(at96.step_ms.high, 103.6, 0.1);
  EXPECT_EQ(at96.measured_tok_s, 845.0);
  EXPECT_NEAR(at96.gain_over_measured->low, 0.096, 1e-3);
  EXPECT_NE(at96.arithmetic[0].find("18.00 + 1.050 * 96 = 118.8 ms"), std::string::npos)
      << at96.arithmetic[0];
}

TEST(Projection, NamesEachInconsistencyOfTheSourcesNumbers) {
  const Projection p = project(source_input()).value();
  const std::string all = all_texts(p);
  EXPECT_TRUE(names(p, "line", {"118.8 ms", "808 tok/s", "845 tok/s", "-4.4 %"})) << all;
  EXPECT_TRUE(names(p, "slope", {"811.0, 845.0 tok/s at 64, 96", "9.5 ms + 1.084 ms"})) << all;
  EXPECT_TRUE(names(p, "marginal", {"1.80x", "0.699 ms", "not 0.610 ms", "needs 2.26x"})) << all;
  EXPECT_TRUE(names(p, "throughput", {"0.610 ms", "1254 tok/s", "not 1100 tok/s"})) << all;
  EXPECT_TRUE(names(
      p, "baseline",
      {"0.890 ms", "928 tok/s", "+14.8 % over the line's 808", "+9.8 % over the measured 845"}))
      << all;
  EXPECT_FALSE(names(p, "marginal", {"1.25x"})) << "0.892 ms is what 0.89 rounds:\n" << all;
  EXPECT_TRUE(names(p, "speedup", {"1.80x", "1128 tok/s", "not 1100", "needs 1.71x"})) << all;
}

TEST(Projection, ConsistentClaimsHaveNoInconsistency) {
  ProjectionInput in;
  in.fixed_ms = 10;
  in.marginal_ms = 1;
  in.share_ms = 0.5;
  in.speedup = {1, 2};
  in.at = {10, 50};
  in.measured = {{10, 500}, {50, 50 / 0.060}};
  in.claim_marginal_ms = {{0.75, 1}};
  in.claim_tok_s = {{50 / 0.060, 50 / 0.0475}};
  const Projection p = project(in).value();
  EXPECT_TRUE(p.inconsistencies.empty()) << all_texts(p);
  EXPECT_NEAR(p.points[1].tok_s.high, 50 / 0.0475, 1e-9);
}

TEST(Projection, AClaimThatNoSpeedUpReachesIsSaidToBeSo) {
  ProjectionInput in;
  in.fixed_ms = 10;
  in.marginal_ms = 1;
  in.share_ms = 0.5;
  in.speedup = {2, 4};
  in.at = {10};
  in.claim_marginal_ms = {{0.4, 0.75}};
  EXPECT_TRUE(names(project(in).value(), "marginal", {"no speed-up gives it"}));
  EXPECT_EQ(speedup_for_marginal(in, 0.5), std::nullopt);
  EXPECT_DOUBLE_EQ(*speedup_for_marginal(in, 0.75), 2);
}

TEST(Projection, RefusesFieldsThatNoStepLineHas) {
  const auto refusal = [](auto&& change) {
    ProjectionInput in = source_input();
    change(in);
    const auto p = project(in);
    return p.ok() ? std::string("accepted") : p.error().message;
  };
  EXPECT_NE(refusal([](auto& in) { in.share_ms = 2; }).find("share-ms=2.0000"), std::string::npos);
  EXPECT_NE(refusal([](auto& in) { in.fixed_ms = -1; }).find("fixed-ms"), std::string::npos);
  EXPECT_NE(refusal([](auto& in) { in.speedup = {2, 1}; }).find("LO <= HI"), std::string::npos);
  EXPECT_NE(refusal([](auto& in) { in.speedup = {0, 1}; }).find("0 < LO"), std::string::npos);
  EXPECT_NE(refusal([](auto& in) { in.at = {}; }).find("at is empty"), std::string::npos);
  EXPECT_NE(refusal([](auto& in) { in.at = {0}; }).find("at=0"), std::string::npos);
  EXPECT_NE(refusal([](auto& in) { in.measured[0].tok_s = 0; }).find("tok/s=0"), std::string::npos);
  EXPECT_NE(refusal([](auto& in) {
              in.claim_tok_s = {{0, 1}};
            }).find("claim-tok-s"),
            std::string::npos);
}

}  // namespace
}  // namespace splitwave
