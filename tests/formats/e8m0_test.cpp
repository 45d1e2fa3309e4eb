// e8m0: every code, and the smallest power of two above any float.
#include "formats/e8m0.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace splitwave {
namespace {

TEST(E8m0, DecodesEveryCodeExactly) {
  for (int code = 0; code < 255; ++code) {
    EXPECT_EQ(decode_e8m0(static_cast<std::uint8_t>(code)), std::ldexp(1.0F, code - 127)) << code;
  }
  EXPECT_TRUE(std::isnan(decode_e8m0(0xFF)));
}

TEST(E8m0, EncodesEveryPowerOfTwoToItselfAndTheNextFloatToTheNextPower) {
  for (int code = 0; code < 255; ++code) {
    const float value = decode_e8m0(static_cast<std::uint8_t>(code));
    EXPECT_EQ(encode_e8m0_ceil(value), code);
    const float above = std::nextafter(value, std::numeric_limits<float>::infinity());
    EXPECT_EQ(encode_e8m0_ceil(above), std::min(code + 1, 254)) << code;
  }
}

TEST(E8m0, EncodesTheLeastPowerOfTwoNotBelowAnyFloat) {
  for (std::uint32_t upper = 0; upper < 0x7F80U; ++upper) {
    for (const std::uint32_t lower : {0x0000U, 0x0001U, 0xFFFFU}) {
      const float value = std::bit_cast<float>((upper << 16) | lower);
      const std::uint8_t code = encode_e8m0_ceil(value);
      if (value <= 0x1p127F) {
        ASSERT_GE(decode_e8m0(code), value);
      } else {
        ASSERT_EQ(code, 254);
      }
      if (code > 0 && value <= 0x1p127F) {
        ASSERT_LT(decode_e8m0(static_cast<std::uint8_t>(code - 1)), value);
      }
    }
  }
}

TEST(E8m0, GivesNanForInfAndNanAndTheLeastScaleForWhatIsNotPositive) {
  EXPECT_EQ(encode_e8m0_ceil(std::numeric_limits<float>::infinity()), 0xFF);
  EXPECT_EQ(encode_e8m0_ceil(std::numeric_limits<float>::quiet_NaN()), 0xFF);
  EXPECT_EQ(encode_e8m0_ceil(0.0F), 0);
  EXPECT_EQ(encode_e8m0_ceil(-1.0F), 0);
}

}  // namespace
}  // namespace splitwave
