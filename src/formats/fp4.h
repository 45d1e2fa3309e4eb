// The e2m1 codec and its packing. Owns the meaning of a 4-bit code: [3] sign, [2:1] exponent (bias
// 1), [0] mantissa; magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6; no inf, no NaN. Two codes a byte, the
// low nibble holds the even index.
#pragma once

#include <array>
#include <cstdint>

namespace splitwave {

inline constexpr float k_e2m1_max = 6.0F;

// Reads the low nibble of code.
[[nodiscard]] constexpr float decode_e2m1(std::uint8_t code) {
  constexpr std::array<float, 8> k_magnitudes{0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  const float magnitude = k_magnitudes[code & 0x7U];
  return (code & 0x8U) != 0 ? -magnitude : magnitude;
}

// Nearest code, ties to even; magnitudes above 6 (and inf) saturate. The format has no NaN: NaN
// gives +6, as the GPU's conversion instruction does.
[[nodiscard]] std::uint8_t encode_e2m1(float value);

[[nodiscard]] constexpr std::uint8_t pack_e2m1(std::uint8_t even, std::uint8_t odd) {
  return static_cast<std::uint8_t>((even & 0xFU) | ((odd & 0xFU) << 4));
}
[[nodiscard]] constexpr std::uint8_t unpack_e2m1(std::uint8_t byte, bool odd) {
  return static_cast<std::uint8_t>(odd ? byte >> 4 : byte & 0xFU);
}

}  // namespace splitwave
