// double to bf16 in one rounding, by way of a float rounded to odd.
#include "formats/bf16.h"

#include <cmath>

namespace splitwave {

std::uint16_t unusual_double_to_bf16(double value) {
  if (std::isnan(value) || std::isinf(value)) return float_to_bf16(static_cast<float>(value));
  float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) != value) {
    // Truncate towards zero and set the last bit: 24 odd-rounded bits (16 more than bf16 keeps,
    // float subnormals included) then round to nearest as the exact value would.
    if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) {
      nearest = std::nextafter(nearest, 0.0F);
    }
    nearest = std::bit_cast<float>(std::bit_cast<std::uint32_t>(nearest) | 1U);
  }
  return float_to_bf16(nearest);
}

}  // namespace splitwave
