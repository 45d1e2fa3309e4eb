// The e8m0 codec: a power of two in one byte, 2^(code - 127); 0xFF is NaN. Owns the scales'
// meaning. Copy scales as bytes: a numeric cast of the decoded value loses the smallest ones.
#pragma once

#include <bit>
#include <cstdint>

namespace splitwave {

inline constexpr int k_e8m0_bias = 127;
inline constexpr std::uint8_t k_e8m0_nan_code = 0xFF;

// Exact: 2^-127 is a float subnormal.
[[nodiscard]] constexpr float decode_e8m0(std::uint8_t code) {
  if (code == k_e8m0_nan_code) return std::bit_cast<float>(0x7FC00000U);
  return code == 0 ? 0x1p-127F : std::bit_cast<float>(static_cast<std::uint32_t>(code) << 23);
}

// The least power of two >= value: what keeps value / scale within range. Values up to 2^-127 (and
// zero and negative ones) give code 0, values above 2^127 saturate to 2^127, inf and NaN give NaN.
[[nodiscard]] std::uint8_t encode_e8m0_ceil(float value);

}  // namespace splitwave
