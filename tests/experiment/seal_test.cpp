// The sealed plan: what is read back is what was written, and nothing damaged is read.
#include "experiment/seal.h"

#include <gtest/gtest.h>

#include "base/sha256.h"
#include "experiment/fake_run.h"

namespace splitwave::experiment {
namespace {

SealedPlan make_plan() {
  SealedPlan plan;
  plan.identity = {"aa", "bb", "cc", "t.csv", "dd"};
  plan.run = test::fake_spec({"incumbent", "b"}, {1, 3, 6}, 12);
  plan.run.arms[1].plan = "mode=free,target_ctas=64";
  plan.run.arms[1].planted = Planted::slow;
  plan.run.arms[1].planted_percent = 2.5;
  plan.run.points[0].weight = 1.0 / 3.0;
  plan.run.points[1].batches.push_back({{7, 0, 9}});
  plan.run.format = KvFormat::v32;
  plan.run.locality = Locality::shared;
  plan.run.cache = CacheState::warm;
  plan.run.stopping = {StopRule::anytime, 100, 10, 0.01};
  plan.run.seed = ~std::uint64_t{0};
  plan.run.gates.accuracy = false;
  return plan;
}

TEST(Seal, RoundTripsEveryField) {
  const SealedPlan plan = make_plan();
  const std::string text = seal(plan.identity, plan.run);
  const auto back = unseal(text);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->identity, plan.identity);
  EXPECT_EQ(back->run, plan.run);
  EXPECT_EQ(seal(back->identity, back->run), text);
}

TEST(Seal, RefusesEverySingleDamagedByte) {
  const SealedPlan plan = make_plan();
  const std::string text = seal(plan.identity, plan.run);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(unseal(damaged).ok()) << "byte " << i;
  }
  for (std::size_t n = 0; n < text.size(); n += 7) EXPECT_FALSE(unseal(text.substr(0, n)).ok());
}

// A forged file with a right hash: the structure must hold by itself.
TEST(Seal, RefusesMalformedLinesByNumberEvenWhenTheHashMatches) {
  const auto refusal = [](std::string body) {
    const auto plan = unseal(body + "sha256 " + sha256_hex(body) + "\n");
    return plan.ok() ? std::string("accepted") : plan.error().message;
  };
  const SealedPlan plan = make_plan();
  std::string text = seal(plan.identity, plan.run);
  text.resize(text.rfind("sha256 "));
  const auto edit = [&](const std::string& from, const std::string& to) {
    std::string t = text;
    const std::size_t at = t.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return refusal(t.replace(at, from.size(), to));
  };
  EXPECT_EQ(refusal(text), "accepted");
  EXPECT_NE(edit("splitwave-sealed 1", "splitwave-sealed 2").find("sealed plan:1:"),
            std::string::npos);
  EXPECT_NE(edit("run heads 64", "run heads 129").find("'run heads 129' is malformed"),
            std::string::npos);
  EXPECT_NE(edit("run heads 64\n", "").find("is malformed"), std::string::npos);
  EXPECT_NE(edit("batch 1000\n", "batch 1000 1\n").find("is malformed"), std::string::npos);
  EXPECT_NE(edit("batch 1000\n", "").find("is malformed"), std::string::npos);
  EXPECT_NE(edit("point 3 ", "point 1 ").find("is malformed"), std::string::npos);
  EXPECT_NE(edit("arm b slow", "arm b quick").find("is malformed"), std::string::npos);
  EXPECT_NE(refusal("splitwave-sealed 1\n").find("incomplete"), std::string::npos);
}

}  // namespace
}  // namespace splitwave::experiment
