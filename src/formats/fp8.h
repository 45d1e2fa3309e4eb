// The e4m3 codec ("fn": no infinities). Owns the meaning of one 8-bit code; no layout, no scale.
// Called by the page codec, the reference, the tests, and by kernels that build tables from it.
//
// code: [7] sign, [6:3] exponent (bias 7), [2:0] mantissa. 0x7F and 0xFF are NaN; largest 448.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace splitwave {

inline constexpr float k_e4m3_max = 448.0F;
inline constexpr std::uint8_t k_e4m3_max_code = 0x7E;
inline constexpr std::uint8_t k_e4m3_nan_code = 0x7F;

[[nodiscard]] constexpr bool is_nan_e4m3(std::uint8_t code) { return (code & 0x7F) == 0x7F; }

// Exact: every code is a float.
[[nodiscard]] constexpr float decode_e4m3(std::uint8_t code) {
  const std::uint32_t exponent = (code >> 3) & 0xFU;
  const std::uint32_t mantissa = code & 0x7U;
  const float sign = (code & 0x80) != 0 ? -1.0F : 1.0F;
  if (is_nan_e4m3(code)) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * static_cast<float>(mantissa) * 0x1p-9F;
  return sign * std::bit_cast<float>(((exponent + 120) << 23) | (mantissa << 20));
}

// Nearest code, ties to even; magnitudes above 448 (and inf) saturate to 448, NaN gives NaN.
[[nodiscard]] std::uint8_t encode_e4m3(float value);

}  // namespace splitwave
