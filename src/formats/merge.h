// Merging two partial attention results over disjoint key sets (context parallel). Owns the
// formula; the public merge_partials forwards here.
#pragma once

#include <cstdint>

namespace splitwave {

// out_a, lse_a receive the merge. out: bf16 [n, 512] contiguous; lse: fp32 [n], natural log,
// without the sink; +inf means no key at all. An empty side leaves the other's bits untouched. The
// sink joins once, afterwards: make both partials without one.
//   lse = log(e^lse_a + e^lse_b);  out = out_a * e^(lse_a - lse) + out_b * e^(lse_b - lse)
void merge_decode_partials(std::uint16_t* out_a, float* lse_a, const std::uint16_t* out_b,
                           const float* lse_b, std::int64_t n);

}  // namespace splitwave
