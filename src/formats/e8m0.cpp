// The scale's exponent read off the float's bits: exponent, plus one if any mantissa bit is set.
#include "formats/e8m0.h"

#include <algorithm>

namespace splitwave {

std::uint8_t encode_e8m0_ceil(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7F800000U) == 0x7F800000U) return k_e8m0_nan_code;
  if ((bits >> 31) != 0) return 0;
  constexpr std::uint32_t k_two_to_minus_127 = 0x00400000U;
  if (bits <= k_two_to_minus_127) return 0;
  const std::uint32_t exponent = bits >> 23;
  // Subnormals above 2^-127 round up to 2^-126, which is exponent 0 plus one.
  const std::uint32_t code = exponent + ((bits & 0x7FFFFFU) != 0 ? 1U : 0U);
  return static_cast<std::uint8_t>(std::min(code, 254U));
}

}  // namespace splitwave
