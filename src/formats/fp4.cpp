// Rounds to e2m1 against the seven midpoints; at a midpoint the even code wins.
#include "formats/fp4.h"

#include <cmath>

namespace splitwave {

std::uint8_t encode_e2m1(float value) {
  if (std::isnan(value)) return 0x7;
  const float magnitude = std::fabs(value);
  const std::uint8_t sign = std::signbit(value) ? 0x8 : 0x0;
  // midpoints[i] separates code i from code i + 1. At the midpoint the even one of the two is
  // right.
  constexpr std::array<float, 7> k_midpoints{0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F};
  std::uint8_t code = 0;
  for (std::uint8_t i = 0; i < k_midpoints.size(); ++i) {
    const bool tie_goes_up = (i & 1U) != 0;
    if (magnitude > k_midpoints[i] || (tie_goes_up && magnitude == k_midpoints[i])) code = i + 1;
  }
  return sign | code;
}

}  // namespace splitwave
