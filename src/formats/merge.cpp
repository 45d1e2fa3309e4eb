// The merge in double, rounded once.
#include "formats/merge.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/bf16.h"
#include "splitwave/layout.h"

namespace splitwave {

void merge_decode_partials(std::uint16_t* out_a, float* lse_a, const std::uint16_t* out_b,
                           const float* lse_b, std::int64_t n) {
  constexpr float k_empty = std::numeric_limits<float>::infinity();
  for (std::int64_t i = 0; i < n; ++i) {
    if (lse_b[i] == k_empty) continue;
    std::uint16_t* a = out_a + i * k_value_dims;
    const std::uint16_t* b = out_b + i * k_value_dims;
    if (lse_a[i] == k_empty) {
      std::copy_n(b, k_value_dims, a);
      lse_a[i] = lse_b[i];
      continue;
    }
    // A NaN on either side must reach the result, and fmax would drop it; the sum below keeps it.
    const double max = std::fmax(lse_a[i], lse_b[i]);
    const double weight_a = std::exp(lse_a[i] - max);
    const double weight_b = std::exp(lse_b[i] - max);
    const double sum = weight_a + weight_b;
    for (int c = 0; c < k_value_dims; ++c) {
      const double va = bf16_to_float(a[c]);
      const double vb = bf16_to_float(b[c]);
      a[c] = double_to_bf16((weight_a * va + weight_b * vb) / sum);
    }
    lse_a[i] = static_cast<float>(max + std::log(sum));
  }
}

}  // namespace splitwave
