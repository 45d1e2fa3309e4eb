// e2m1: every code, every midpoint, nearest by search, and the nibble order.
#include "formats/fp4.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace splitwave {
namespace {

double e2m1_by_definition(int code) {
  const double sign = (code & 8) != 0 ? -1 : 1;
  const int exponent = (code >> 1) & 3;
  const int mantissa = code & 1;
  return sign * (exponent == 0 ? mantissa * 0.5 : std::ldexp(2 + mantissa, exponent - 2));
}

int nearest_code(float value) {
  const double magnitude = std::min(std::fabs(static_cast<double>(value)), 1e30);
  int best = 0;
  for (int code = 0; code < 8; ++code) {
    const double distance = std::fabs(magnitude - e2m1_by_definition(code));
    const double best_distance = std::fabs(magnitude - e2m1_by_definition(best));
    if (distance < best_distance || (distance == best_distance && (code & 1) == 0)) best = code;
  }
  if (magnitude > 6) best = 7;
  return best | (std::signbit(value) ? 8 : 0);
}

TEST(E2m1, DecodesEveryCodeExactlyAndEncodesItToItself) {
  for (int code = 0; code < 16; ++code) {
    const float value = decode_e2m1(static_cast<std::uint8_t>(code));
    EXPECT_EQ(static_cast<double>(value), e2m1_by_definition(code)) << code;
    EXPECT_EQ(std::signbit(value), (code & 8) != 0) << code;
    EXPECT_EQ(encode_e2m1(value), code);
  }
}

TEST(E2m1, EncodesTheNearestCodeOfFloatsOfEveryExponentAndMantissaPattern) {
  for (std::uint32_t upper = 0; upper < 0x10000U; ++upper) {
    for (const std::uint32_t lower : {0x0000U, 0x0001U, 0xFFFFU}) {
      const float value = std::bit_cast<float>((upper << 16) | lower);
      if (std::isnan(value)) {
        ASSERT_EQ(encode_e2m1(value), 0x7);
      } else {
        ASSERT_EQ(encode_e2m1(value), nearest_code(value)) << std::hexfloat << value;
      }
    }
  }
}

TEST(E2m1, RoundsMidpointsToEven) {
  EXPECT_EQ(encode_e2m1(0.25F), 0);
  EXPECT_EQ(encode_e2m1(0.75F), 2);
  EXPECT_EQ(encode_e2m1(1.25F), 2);
  EXPECT_EQ(encode_e2m1(1.75F), 4);
  EXPECT_EQ(encode_e2m1(2.5F), 4);
  EXPECT_EQ(encode_e2m1(3.5F), 6);
  EXPECT_EQ(encode_e2m1(5.0F), 6);
  EXPECT_EQ(encode_e2m1(-std::numeric_limits<float>::infinity()), 0xF);
}

TEST(E2m1, PacksTheEvenIndexIntoTheLowNibble) {
  EXPECT_EQ(pack_e2m1(0x3, 0xA), 0xA3);
  EXPECT_EQ(unpack_e2m1(0xA3, false), 0x3);
  EXPECT_EQ(unpack_e2m1(0xA3, true), 0xA);
}

}  // namespace
}  // namespace splitwave
