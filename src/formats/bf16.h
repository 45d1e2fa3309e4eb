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

// The general case of double_to_bf16: what over- or underflows, inf and NaN.
[[nodiscard]] std::uint16_t unusual_double_to_bf16(double value);

// One rounding from double. Through float it would be two: wrong next to a tie.
[[nodiscard]] inline std::uint16_t double_to_bf16(double value) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  // Keep 7 of 52 mantissa bits, then move the exponent's bias from 1023 to 127.
  const std::uint64_t magnitude = bits & 0x7FFFFFFFFFFFFFFFU;
  const std::uint64_t rounded = (magnitude + 0xFFFFFFFFFFFU + ((magnitude >> 45) & 1U)) >> 45;
  constexpr std::uint64_t k_least_normal = (1023U - 126U) << 7;
  constexpr std::uint64_t k_infinity = (1023U + 128U) << 7;
  if (rounded < k_least_normal || rounded >= k_infinity) return unusual_double_to_bf16(value);
  return static_cast<std::uint16_t>(((bits >> 48) & 0x8000U) | (rounded - (896U << 7)));
}

}  // namespace splitwave
