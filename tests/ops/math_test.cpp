// The shared fp32 arithmetic: exp's accuracy and edges, the softmax steps, scales.
#include "formats/ops_math.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "ops/random.h"

namespace splitwave {
namespace {

constexpr float k_inf = std::numeric_limits<float>::infinity();
constexpr float k_nan = std::numeric_limits<float>::quiet_NaN();

TEST(ExpNonpositive, IsWithinTwoUlpOfExpOverItsWholeRange) {
  double worst = 0;
  for (int i = 0; i <= 873000; ++i) {
    const float x = -static_cast<float>(i) * 1e-4F;
    const double want = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(exp_nonpositive(x) - want) / want);
  }
  EXPECT_LT(worst, 2 * 0x1p-23);
}

TEST(ExpNonpositive, GivesOneAtZeroZeroFarBelowAndKeepsNan) {
  EXPECT_EQ(exp_nonpositive(0.0F), 1.0F);
  EXPECT_EQ(exp_nonpositive(-0.0F), 1.0F);
  EXPECT_EQ(exp_nonpositive(-88.0F), 0.0F);
  EXPECT_EQ(exp_nonpositive(-k_inf), 0.0F);
  EXPECT_TRUE(std::isnan(exp_nonpositive(k_nan)));
}

TEST(OnlineSoftmax, AgreesWithTheTwoPassFormInDouble) {
  testing_ops::Random random(1);
  for (int repeat = 0; repeat < 50; ++repeat) {
    const auto score = testing_ops::normal_floats(random, 128, 6);
    const auto value = testing_ops::normal_floats(random, 128);
    float m = score[0];
    float l = 1;
    float a = value[0];
    double top = score[0];
    for (int i = 1; i < 128; ++i) online_softmax_step(score[i], value[i], m, l, a);
    for (const float s : score) top = std::max<double>(top, s);
    double want_l = 0;
    double want_a = 0;
    double size = 0;
    for (int i = 0; i < 128; ++i) {
      const double w = std::exp(score[i] - top);
      want_l += w;
      want_a += w * value[i];
      size += w * std::abs(value[i]);
    }
    EXPECT_NEAR(a / l, want_a / want_l, 4e-6 * size / want_l);
  }
}

TEST(OnlineSoftmax, ForgetsALeadingScoreOfMinusInfinity) {
  float m = -k_inf;
  float l = 1;
  float a = 7;
  online_softmax_step(2.0F, 3.0F, m, l, a);
  EXPECT_EQ(a / l, 3.0F);
}

TEST(PoolEight, NeverReadsTokensThatDoNotExist) {
  std::array<float, 8> score{k_nan, k_inf, k_nan, k_nan, 1, 1, 1, 1};
  std::array<float, 8> value{k_nan, k_nan, k_inf, k_nan, 1, 2, 3, 4};
  EXPECT_EQ(pool_eight(score.data(), value.data(), 4), 2.5F);
}

TEST(BlockScale, RoundsUpToAPowerOfTwoAndKeepsExactOnes) {
  const std::uint32_t bits_448 = bits_of(448.0F) >> 16;
  EXPECT_EQ(block_scale(bits_448, 1e-4F, 448.0F, true), 1.0F);
  EXPECT_EQ(block_scale(bits_448 + 1, 1e-4F, 448.0F, true), 2.0F);
  EXPECT_EQ(block_scale(0, 1e-4F, 448.0F, true), 0x1p-22F);  // the floor
  EXPECT_EQ(block_scale(0, 6 * 0x1p-126F, 6.0F, true), 0x1p-126F);
  EXPECT_EQ(block_scale(bits_448 + 1, 1e-4F, 448.0F, false), 450.0F / 448.0F);
  EXPECT_TRUE(std::isnan(block_scale(0x7F80, 1e-4F, 448.0F, true)));
  EXPECT_TRUE(std::isnan(block_scale(0x7FC1, 1e-4F, 448.0F, false)));
}

}  // namespace
}  // namespace splitwave
