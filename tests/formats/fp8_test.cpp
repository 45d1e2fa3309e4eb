// e4m3 against its definition, every code and every rounding boundary.
#include "formats/fp8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace splitwave {
namespace {

double e4m3_by_definition(int code) {
  const double sign = (code & 0x80) != 0 ? -1 : 1;
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  if (exponent == 0) return sign * std::ldexp(mantissa, -9);
  return sign * std::ldexp(8 + mantissa, exponent - 10);
}

// The nearest finite code by search over all of them; on a tie, the one with an even last bit.
int nearest_code(float value) {
  if (std::isnan(value)) return std::signbit(value) ? 0xFF : 0x7F;
  const double magnitude = std::fabs(static_cast<double>(value));
  int best = 0;
  for (int code = 0; code <= 0x7E; ++code) {
    const double distance = std::fabs(magnitude - e4m3_by_definition(code));
    const double best_distance = std::fabs(magnitude - e4m3_by_definition(best));
    if (distance < best_distance || (distance == best_distance && (code & 1) == 0)) best = code;
  }
  if (std::isinf(value)) best = 0x7E;
  return best | (std::signbit(value) ? 0x80 : 0);
}

TEST(E4m3, DecodesEveryCodeExactly) {
  for (int code = 0; code < 256; ++code) {
    const float value = decode_e4m3(static_cast<std::uint8_t>(code));
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value)) << code;
      continue;
    }
    EXPECT_EQ(static_cast<double>(value), e4m3_by_definition(code)) << code;
    EXPECT_EQ(std::signbit(value), (code & 0x80) != 0) << code;
  }
  EXPECT_EQ(decode_e4m3(k_e4m3_max_code), 448.0F);
}

TEST(E4m3, EncodesEveryDecodedCodeToItself) {
  for (int code = 0; code < 256; ++code) {
    const auto c = static_cast<std::uint8_t>(code);
    if (is_nan_e4m3(c)) {
      EXPECT_TRUE(is_nan_e4m3(encode_e4m3(decode_e4m3(c)))) << code;
    } else {
      EXPECT_EQ(encode_e4m3(decode_e4m3(c)), code);
    }
  }
}

TEST(E4m3, RoundsEveryMidpointToEvenAndItsNeighboursAwayFromIt) {
  for (int code = 0; code < 0x7E; ++code) {
    const auto low = decode_e4m3(static_cast<std::uint8_t>(code));
    const auto high = decode_e4m3(static_cast<std::uint8_t>(code + 1));
    const float middle = (low + high) / 2;
    for (const float sign : {1.0F, -1.0F}) {
      const int s = sign < 0 ? 0x80 : 0;
      EXPECT_EQ(encode_e4m3(sign * middle), s | ((code & 1) == 0 ? code : code + 1));
      EXPECT_EQ(encode_e4m3(sign * std::nextafter(middle, 0.0F)), s | code);
      EXPECT_EQ(encode_e4m3(sign * std::nextafter(middle, 1e9F)), s | (code + 1));
    }
  }
}

TEST(E4m3, EncodesTheNearestCodeOfFloatsOfEveryExponentAndMantissaPattern) {
  // All 2^16 upper halves (every sign, exponent, upper mantissa), each with four lower halves.
  for (std::uint32_t upper = 0; upper < 0x10000U; ++upper) {
    for (const std::uint32_t lower : {0x0000U, 0x0001U, 0x8000U, 0xFFFFU}) {
      const float value = std::bit_cast<float>((upper << 16) | lower);
      ASSERT_EQ(encode_e4m3(value), nearest_code(value)) << std::hexfloat << value;
    }
  }
}

TEST(E4m3, SaturatesTo448AndKeepsNan) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(encode_e4m3(448.1F), 0x7E);
  EXPECT_EQ(encode_e4m3(465.0F), 0x7E);
  EXPECT_EQ(encode_e4m3(1e30F), 0x7E);
  EXPECT_EQ(encode_e4m3(inf), 0x7E);
  EXPECT_EQ(encode_e4m3(-inf), 0xFE);
  EXPECT_TRUE(is_nan_e4m3(encode_e4m3(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace splitwave
