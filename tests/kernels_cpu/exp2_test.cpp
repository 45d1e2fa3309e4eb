// The vector exp2 of every compiled target: its error over the floats that a softmax gives it, its
// limits, and the same bits from every target with a fused multiply-add.
#undef HWY_TARGET_INCLUDE
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#define HWY_TARGET_INCLUDE "kernels_cpu/exp2_test.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "kernels/cpu/softmax_inl.h"

HWY_BEFORE_NAMESPACE();
namespace splitwave::cpu::HWY_NAMESPACE {

// count: a multiple of 16.
void Exp2All(const float* x, float* y, int count) {
  const DF d;
  for (int i = 0; i < count; i += k_lanes) hn::StoreU(Exp2(hn::LoadU(d, x + i)), d, y + i);
}

}  // namespace splitwave::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace splitwave::cpu {
namespace {

HWY_EXPORT(Exp2All);

constexpr float k_inf = std::numeric_limits<float>::infinity();

std::vector<std::int64_t> runnable_targets() {
  std::vector<std::int64_t> targets;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) targets.push_back(target);
  return targets;
}

std::vector<float> exp2_on(std::int64_t target, const std::vector<float>& x) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(Exp2All)(x.data(), y.data(), static_cast<int>(x.size()));
  hwy::SetSupportedTargetsForTest(0);
  return y;
}

// Every 61st float in [-126, 0] and in [0, 126], padded to whole vectors: 35 million pairs would
// take a minute on the scalar target, a prime stride visits every exponent and all low bits.
std::vector<float> sampled_arguments() {
  std::vector<float> x;
  const auto last = std::bit_cast<std::uint32_t>(126.0F);
  for (std::uint32_t bits = std::bit_cast<std::uint32_t>(0x1p-30F); bits <= last; bits += 61) {
    x.push_back(-std::bit_cast<float>(bits));
    if (bits % 7 == 0) x.push_back(std::bit_cast<float>(bits));
  }
  while (x.size() % 16 != 0) x.push_back(0.0F);
  return x;
}

TEST(Exp2, IsWithinTwoUnitsInTheLastPlaceOfTheTruth) {
  const std::vector<float> x = sampled_arguments();
  for (const std::int64_t target : runnable_targets()) {
    const std::vector<float> y = exp2_on(target, x);
    double worst = 0;
    float worst_at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double truth = std::exp2(double{x[i]});
      const double error = std::abs(double{y[i]} / truth - 1.0);
      if (!(error <= worst)) {
        worst = error;
        worst_at = x[i];
      }
    }
    EXPECT_LE(worst, 0x1p-23) << hwy::TargetName(target) << " at " << worst_at;
  }
}

TEST(Exp2, GivesTheSameBitsOnEveryTargetWithAFusedMultiplyAdd) {
  const std::vector<float> x = sampled_arguments();
  std::vector<float> first;
  int compared = 0;
  for (const std::int64_t target : runnable_targets()) {
    if (target == HWY_SCALAR) continue;
    const std::vector<float> y = exp2_on(target, x);
    if (first.empty()) {
      first = y;
      continue;
    }
    ++compared;
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i]), std::bit_cast<std::uint32_t>(first[i]))
          << hwy::TargetName(target) << " at " << x[i];
    }
  }
  if (compared == 0) GTEST_SKIP() << "this processor has one such target only";
}

TEST(Exp2, KeepsTheLimits) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {0.0F,    -0.0F,  1.0F,   -1.0F, -k_inf, k_inf,  nan,   -nan,
                                -127.0F, 127.0F, 128.0F, 3e38F, -3e38F, -1e-40F, 5.0F, -126.0F};
  for (const std::int64_t target : runnable_targets()) {
    const std::vector<float> y = exp2_on(target, x);
    const std::string name = hwy::TargetName(target);
    EXPECT_EQ(y[0], 1.0F) << name;
    EXPECT_EQ(y[1], 1.0F) << name;
    EXPECT_EQ(y[2], 2.0F) << name;
    EXPECT_EQ(y[3], 0.5F) << name;
    EXPECT_EQ(y[4], 0.0F) << name;
    EXPECT_EQ(y[5], k_inf) << name;
    EXPECT_TRUE(std::isnan(y[6])) << name;
    EXPECT_TRUE(std::isnan(y[7])) << name;
    EXPECT_EQ(y[8], 0.0F) << name;
    EXPECT_EQ(y[9], 0x1p127F) << name;
    EXPECT_EQ(y[10], k_inf) << name;
    EXPECT_EQ(y[11], k_inf) << name;
    EXPECT_EQ(y[12], 0.0F) << name;
    EXPECT_EQ(y[13], 1.0F) << name;
    EXPECT_EQ(y[14], 32.0F) << name;
    EXPECT_EQ(y[15], 0x1p-126F) << name;
  }
}

}  // namespace
}  // namespace splitwave::cpu
#endif  // HWY_ONCE
