// The random bits of synthetic problems. Owns the value ranges; knows nothing of
// pages or lists. Only synthetic.cpp and the tests of its ranges use it.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/random.h"
#include "formats/kv_row.h"
#include "formats/synthetic.h"

namespace splitwave::synthetic_bits {

using Random = Rng;

// A seed for (seed, what, a, b): splitmix64 over each in turn.
[[nodiscard]] inline std::uint64_t mix(std::uint64_t seed, std::uint64_t what, std::int64_t a,
                                       std::int64_t b) {
  const auto step = [](std::uint64_t h, std::uint64_t value) {
    return splitmix64(h + value * 0xD1342543DE82EF95U);
  };
  return step(step(step(seed, what), static_cast<std::uint64_t>(a)), static_cast<std::uint64_t>(b));
}

// Eight e4m3 codes, uniform over the codes that are numbers.
[[nodiscard]] inline std::uint64_t eight_codes(std::uint64_t x) {
  const std::uint64_t carry = (x & 0x7F7F7F7F7F7F7F7FU) + 0x0101010101010101U;
  return x ^ ((carry & 0x8080808080808080U) >> 7);  // 0x7F and 0xFF lose their last bit
}

// Four bf16 of magnitude [2^(base - 127), 2^(base - 123)), base a multiple of 4.
[[nodiscard]] inline std::uint64_t four_bf16(std::uint64_t x, std::uint64_t base) {
  constexpr std::uint64_t k_lanes = 0x0001000100010001U;
  return (x & (0x81FFU * k_lanes)) | ((base << 7) * k_lanes);
}
inline constexpr std::uint64_t k_rope_exponent = 120;  // RoPE dims: 2^-7 .. 2^-3
inline constexpr std::uint64_t k_q_exponent = 124;     // queries: 2^-3 .. 2

void fill_bf16(Rng& random, std::uint64_t base, std::uint16_t* out, int n);
// A token's stored parts.
[[nodiscard]] KvRow random_row(KvFormat format, ScaleKind scales, std::uint64_t seed);

}  // namespace splitwave::synthetic_bits
