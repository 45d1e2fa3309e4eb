// Rounds floats to e4m3 on their bits, so that the result does not depend on the rounding mode.
#include "formats/fp8.h"

namespace splitwave {

std::uint8_t encode_e4m3(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint8_t sign = static_cast<std::uint8_t>((bits >> 24) & 0x80U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  constexpr std::uint32_t k_infinity = 0x7F800000U;
  if (magnitude > k_infinity) return sign | k_e4m3_nan_code;
  if (magnitude >= std::bit_cast<std::uint32_t>(k_e4m3_max)) return sign | k_e4m3_max_code;
  if (magnitude >= std::bit_cast<std::uint32_t>(0x1p-6F)) {
    // Normal codes: keep 3 of 23 mantissa bits; a carry moves into the exponent as it should.
    const std::uint32_t rounded = magnitude + 0x7FFFFU + ((magnitude >> 20) & 1U);
    return sign | static_cast<std::uint8_t>((rounded >> 20) - (120U << 3));
  }
  // Subnormal codes: multiples of 2^-9. The float is mantissa * 2^(exponent - 150), so the count of
  // 2^-9 steps is mantissa >> (141 - exponent), rounded.
  const std::uint32_t exponent = magnitude >> 23;
  const std::uint32_t shift = 141U - exponent;
  if (shift > 25) return sign;  // below half of the smallest step; float subnormals end here too
  const std::uint32_t mantissa = (magnitude & 0x7FFFFFU) | 0x800000U;
  const std::uint32_t floor = mantissa >> shift;
  const std::uint32_t rest = mantissa & ((1U << shift) - 1U);
  const std::uint32_t half = 1U << (shift - 1U);
  const bool up = rest > half || (rest == half && (floor & 1U) != 0);
  return sign | static_cast<std::uint8_t>(floor + (up ? 1U : 0U));
}

}  // namespace splitwave
