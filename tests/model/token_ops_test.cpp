// One token's arithmetic against the codecs and against the formulas in double.
#include "model/token_ops.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "formats/e8m0.h"
#include "formats/fp8.h"
#include "model/make_tiny.h"

namespace splitwave::model {
namespace {

TEST(TokenOps, ActivationsRoundAsTheCodecDoes) {
  Rng random(1);
  for (int trial = 0; trial < 4000; ++trial) {
    float x[128];
    const auto spread = static_cast<int>(random.below(40));
    for (float& v : x) {
      v = static_cast<float>(random.normal()) *
          std::ldexp(1.0F, -static_cast<int>(random.below(static_cast<std::uint32_t>(spread + 1))));
    }
    if (trial % 7 == 0) x[3] = 0;
    float out[128];
    quantise_activation(x, 128, out);
    float amax = 1e-4F;
    for (const float v : x) amax = std::max(amax, std::fabs(v));
    const float scale = decode_e8m0(encode_e8m0_ceil(amax / k_e4m3_max));
    for (int i = 0; i < 128; ++i) {
      ASSERT_EQ(out[i], decode_e4m3(encode_e4m3(x[i] / scale)) * scale) << x[i];
    }
  }
}

TEST(TokenOps, SinkhornEndsWithColumnsThatSumToOne) {
  const ModelConfig config = tiny_config({});
  Rng random(2);
  MixingWeights w;
  for (int i = 0; i < 24; ++i) w.base.push_back(static_cast<float>(random.normal()));
  w.scale = {1, 1, 1};
  float products[24];
  for (float& p : products) p = static_cast<float>(random.normal());
  const Mixing m = mixing_of(products, 4.0 * config.hidden, w, config);
  for (int k = 0; k < 4; ++k) {
    double column = 0;
    double row = 0;
    for (int j = 0; j < 4; ++j) column += m.comb[4 * j + k], row += m.comb[4 * k + j];
    EXPECT_NEAR(column, 1, 1e-5);
    EXPECT_NEAR(row, 1, 1e-2);
    EXPECT_GT(m.pre[k], 0);
    EXPECT_LT(m.post[k], 2);
  }
}

TEST(TokenOps, RotationIsInterleavedAndItsInverseUndoesIt) {
  const ModelConfig config = tiny_config({});
  const auto plain = rope_table(config, false, 8);
  const auto compressed = rope_table(config, true, 8);
  float x[64] = {1, 0};
  rotate(plain.data() + 3 * 64, false, x);
  EXPECT_NEAR(x[0], std::cos(3.0), 4e-3);
  EXPECT_NEAR(x[1], std::sin(3.0), 4e-3);
  rotate(plain.data() + 3 * 64, true, x);
  EXPECT_NEAR(x[0], 1, 8e-3);
  EXPECT_NEAR(x[1], 0, 8e-3);
  // YaRN: the slowest pair of a compressed layer turns 16 times slower than its theta says.
  const double slowest = std::pow(160000.0, -62.0 / 64);
  EXPECT_NEAR(compressed[7 * 64 + 32 + 31], std::sin(7 * slowest / 16), 1e-7);
  // The fastest is left alone.
  EXPECT_NEAR(compressed[7 * 64], std::cos(7.0), 1e-6);
}

TEST(TokenOps, ExpertScoresAreStableAtBothEnds) {
  EXPECT_FLOAT_EQ(expert_score(100), 10.0F);
  EXPECT_GT(expert_score(-40), 0.0F);
  const float zero_scores[3] = {0, 0, 0};
  Route routes[2] = {{0, 0}, {2, 0}};
  weigh_routes(zero_scores, 1.5, routes);
  EXPECT_FLOAT_EQ(routes[0].weight, 0.75F);
}

TEST(TokenOps, TheBiasChoosesAndDoesNotWeigh) {
  const float scores[4] = {0.5F, 0.4F, 0.3F, 0.1F};
  const float bias[4] = {0, 0, 0, 1};
  Route routes[2];
  choose_experts(scores, bias, 2, routes);
  EXPECT_EQ(routes[0].expert, 3);
  EXPECT_EQ(routes[1].expert, 0);
  weigh_routes(scores, 1.5, routes);
  EXPECT_NEAR(routes[0].weight, 0.1 / 0.6 * 1.5, 1e-6);
  EXPECT_NEAR(routes[1].weight, 0.5 / 0.6 * 1.5, 1e-6);
}

TEST(TokenOps, TheGateClampIsOneSided) {
  float gate[2] = {20, -20};
  const float up[2] = {-30, 30};
  clamped_swiglu(gate, up, 2, 10, 1);
  EXPECT_NEAR(gate[0], -100, 0.5);  // silu(10) * -10
  EXPECT_NEAR(gate[1], -20 * 10 / (1 + std::exp(20.0)), 1e-8);
}

}  // namespace
}  // namespace splitwave::model
