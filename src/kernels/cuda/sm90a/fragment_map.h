// Which token and which dimension each fragment slot means. Owns the permutations that let raw fp8
// rows feed the tensor cores without a transposition in memory; pure integer functions, tested on
// the host by an emulation of the PTX fragment layouts. Called by the kernels of this folder and by
// that test.
//
// A thread of a warp is (g, c) = (lane / 4, lane % 4). Of an m64k16 A operand it holds
//   a0 = (row g,     k 2c, 2c+1)   a1 = (row g + 8, k 2c, 2c+1)
//   a2 = (row g,     k 2c+8, 2c+9) a3 = (row g + 8, k 2c+8, 2c+9)      rows within the warp's 16.
#pragma once

namespace splitwave::cuda::sm90a {

#if defined(__CUDACC__)
#define SPLITWAVE_HD __host__ __device__
#else
#define SPLITWAVE_HD
#endif

// Token (0..15 of the warp's tile) of fragment row r. Rows of both formats are stored at a stride
// of 16 bytes mod 128 (V3.2) or 80 (V4); two tokens four apart are 64 bytes apart mod 128 in both,
// so the 16-byte loads of a quarter warp (rows 2i, 2i+1 of this map, 64 bytes each) hit all 32
// banks once.
[[nodiscard]] SPLITWAVE_HD constexpr int token_of_row(int r) {
  return (r & 8) + ((r & 1) << 2) + ((r & 7) >> 1);
}

// QK: a 64-dim group is four k16 steps. From fp8 data thread c takes 16 consecutive dims and spends
// four a step; from bf16 data (RoPE) it takes 8 from each half of the group, so that its two
// 16-byte loads are conflict-free. Dim within the group of slot k of step s.
[[nodiscard]] SPLITWAVE_HD constexpr int fp8_dim_of_slot(int s, int k) {
  return 16 * ((k & 7) >> 1) + 4 * s + 2 * (k >> 3) + (k & 1);
}
[[nodiscard]] SPLITWAVE_HD constexpr int rope_dim_of_slot(int s, int k) {
  return 32 * (s >> 1) + 8 * ((k & 7) >> 1) + 4 * (s & 1) + 2 * (k >> 3) + (k & 1);
}

// PV: dim within a warp's 16 dims of an M-tile of row r of its A operand. From fp8 data a thread
// ends with dims 2g and 2g + 1 of each of its heads, from bf16 data (RoPE) with g and g + 8.
[[nodiscard]] SPLITWAVE_HD constexpr int value_dim_of_row(int r) { return 2 * (r & 7) + (r >> 3); }
[[nodiscard]] SPLITWAVE_HD constexpr int rope_value_dim_of_row(int r) { return r; }

// V3.2 values are one rounding to bf16 of code * scale, a product of 4 by 24 bits. Rounding it to
// fp32 first would round some values twice; instead it is cut to fp32 (toward zero) and its last
// bit set when the scale has ten significant bits or more. Such a product has ten or more too: it
// is no bf16 number and no tie between two, so the set bit cannot move it over one, and where bits
// were cut off it keeps the value off the tie. With nine bits or fewer the product is exact.
[[nodiscard]] SPLITWAVE_HD constexpr unsigned sticky_bit(unsigned scale_bits) {
  return (scale_bits & 0x7FFFU) != 0 ? 1U : 0U;
}

}  // namespace splitwave::cuda::sm90a
