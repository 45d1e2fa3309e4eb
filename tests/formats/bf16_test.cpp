// bf16: every code, every midpoint, and the single rounding from double.
#include "formats/bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace splitwave {
namespace {

TEST(Bf16, EncodesEveryDecodedCodeToItself) {
  for (std::uint32_t code = 0; code < 0x10000U; ++code) {
    const auto c = static_cast<std::uint16_t>(code);
    const float value = bf16_to_float(c);
    ASSERT_EQ(std::isnan(value), is_nan_bf16(c)) << code;
    if (is_nan_bf16(c)) {
      EXPECT_TRUE(is_nan_bf16(float_to_bf16(value))) << code;
      EXPECT_EQ(float_to_bf16(value) & 0x8000U, code & 0x8000U);
      EXPECT_TRUE(is_nan_bf16(double_to_bf16(std::nan(""))));
    } else {
      ASSERT_EQ(float_to_bf16(value), code);
      ASSERT_EQ(double_to_bf16(static_cast<double>(value)), code);
    }
  }
}

TEST(Bf16, RoundsEveryMidpointToEvenAndItsNeighboursAwayFromIt) {
  for (std::uint32_t code = 0; code < 0x7F80U; ++code) {  // the last pair is (max, inf)
    for (const std::uint32_t sign : {0U, 0x8000U}) {
      const std::uint32_t low = code | sign;
      const std::uint32_t even = (code & 1U) == 0 ? low : low + 1;
      const std::uint32_t middle = (low << 16) | 0x8000U;
      ASSERT_EQ(float_to_bf16(std::bit_cast<float>(middle)), even);
      ASSERT_EQ(float_to_bf16(std::bit_cast<float>(middle - 1)), low);
      ASSERT_EQ(float_to_bf16(std::bit_cast<float>(middle + 1)), low + 1);
      // Closer to the midpoint than a float can say: only a single rounding gets these right.
      const double exact = std::bit_cast<float>(middle);
      const double towards_zero = std::nextafter(exact, 0.0);
      const double away = std::nextafter(exact, sign != 0 ? -HUGE_VAL : HUGE_VAL);
      ASSERT_EQ(double_to_bf16(exact), even);
      ASSERT_EQ(double_to_bf16(towards_zero), low);
      ASSERT_EQ(double_to_bf16(away), low + 1);
    }
  }
}

TEST(Bf16, MapsDoublesOutsideTheFloatRangeToInfAndToSignedZero) {
  EXPECT_EQ(double_to_bf16(1e300), 0x7F80);
  EXPECT_EQ(double_to_bf16(-1e300), 0xFF80);
  EXPECT_EQ(double_to_bf16(1e-300), 0x0000);
  EXPECT_EQ(double_to_bf16(-1e-300), 0x8000);
  EXPECT_EQ(double_to_bf16(0x1p-134), 0x0000);                       // a tie goes to even zero
  EXPECT_EQ(double_to_bf16(std::nextafter(0x1p-134, 1.0)), 0x0001);  // the least subnormal
  EXPECT_EQ(double_to_bf16(std::numeric_limits<double>::infinity()), 0x7F80);
}

}  // namespace
}  // namespace splitwave
