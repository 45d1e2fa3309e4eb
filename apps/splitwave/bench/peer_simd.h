// The vector parts of the library peer: what a user would write around the two GEMMs, with the same
// decoders and the same exp2 as this project's kernels, so that the peer loses nothing there.
#pragma once

#include <cstdint>

#include "kernels/cpu/decode_kernels.h"

namespace splitwave::bench {

// rows[0, count) to row-major [count, d_qk]; rows up to known are prefetched.
void dequantise_rows(KvFormat format, const cpu::RowRef* rows, int count, int known, float* out);
// One head's scores to probabilities, not normalised; gives the maximum (base 2) and the sum.
void softmax_row(float* scores, int count, float scale_log2, float* m, float* l);
// Nearest even; count a multiple of 16.
void to_bf16(const float* from, std::int64_t count, std::uint16_t* to);
// to = bf16(from * factor); count a multiple of 16.
void scale_to_bf16(const float* from, std::int64_t count, float factor, std::uint16_t* to);

}  // namespace splitwave::bench
