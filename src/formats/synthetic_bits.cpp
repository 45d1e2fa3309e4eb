// Fills rows eight codes at a time.
#include "formats/synthetic_bits.h"

#include <bit>

namespace splitwave::synthetic_bits {
namespace {

// The largest scale keeps 448 * scale <= 0.4375 (see synthetic.h).
constexpr std::uint32_t k_scale_code_max = 117;        // 2^-10
constexpr std::uint32_t k_large_scale_code_max = 147;  // 2^20

std::uint8_t random_e8m0(Rng& random, ScaleKind kind) {
  const auto draw = [&](std::uint32_t low, std::uint32_t high) {
    return static_cast<std::uint8_t>(low + random.below(high - low + 1));
  };
  switch (kind) {
    case ScaleKind::normal:
      return draw(k_scale_code_max - 2, k_scale_code_max);
    case ScaleKind::power_of_two:
      return k_scale_code_max;
    case ScaleKind::wide:
      return draw(0, k_scale_code_max);
    case ScaleKind::large:
      return draw(k_scale_code_max, k_large_scale_code_max);
  }
  return k_scale_code_max;
}

float random_f32_scale(Rng& random, ScaleKind kind) {
  const std::uint32_t exponent = random_e8m0(random, kind);
  if (kind == ScaleKind::power_of_two) return std::bit_cast<float>(exponent << 23);
  // Any mantissa: the binade below, so that the bound on K still holds. Exponent 0 is subnormal.
  const auto mantissa = static_cast<std::uint32_t>(random.next()) & 0x7FFFFFU;
  return std::bit_cast<float>(((exponent == 0 ? 0 : exponent - 1) << 23) | mantissa);
}

}  // namespace

void fill_bf16(Rng& random, std::uint64_t base, std::uint16_t* out, int n) {
  for (int i = 0; i < n; i += 4) {
    const std::uint64_t four = four_bf16(random.next(), base);
    std::memcpy(out + i, &four, sizeof four);
  }
}

KvRow random_row(KvFormat format, ScaleKind scales, std::uint64_t seed) {
  Rng random(seed);
  KvRow row;
  const int codes = format == KvFormat::v32 ? k_v32_nope_dims : k_v4_nope_dims;
  for (int i = 0; i < codes; i += 8) {
    const std::uint64_t eight = eight_codes(random.next());
    std::memcpy(row.codes.data() + i, &eight, sizeof eight);
  }
  fill_bf16(random, k_rope_exponent, row.rope.data(), k_rope_dims);
  if (format == KvFormat::v32) {
    for (float& s : row.scales_f32) s = random_f32_scale(random, scales);
  } else {
    for (std::uint8_t& s : row.scales_e8m0) s = random_e8m0(random, scales);
  }
  return row;
}

}  // namespace splitwave::synthetic_bits
