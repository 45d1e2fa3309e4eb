// The bf16 codec: the upper half of a float. Owns its two roundings; called everywhere on the host.
#pragma once

#include <bit>
#include <cstdint>

namespace splitwave {

[[nodiscard]] constexpr float bf16_to_float(std::uint16_t code) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 16);
}
[[nodiscard]] constexpr bool is_nan_bf16(std::uint16_t code) { return (code & 0x7FFF) > 0x7F80; }

// Nearest, ties to even; overflow gives inf; NaN stays NaN (quiet, sign and upper payload kept).
[[nodiscard]] constexpr std::uint16_t float_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

// One rounding from double. Through float it would be two: wrong next to a tie.
[[nodiscard]] std::uint16_t double_to_bf16(double value);

}  // namespace splitwave
