// The matrix instruction of the portable family: D[16, 8] += A[16, 16] B[16, 8], fp32 accumulation.
// Owns the fragment layout's one description; every other file refers to it.
//
// lane = 4 g + c (g 0..7, c 0..3). Registers hold pairs of 16-bit elements, low half first:
//   a0 = A[g    ][2c, 2c+1]   a1 = A[g + 8][2c, 2c+1]
//   a2 = A[g    ][2c+8, 2c+9] a3 = A[g + 8][2c+8, 2c+9]
//   b0 = B[2c, 2c+1][g]       b1 = B[2c+8, 2c+9][g]
//   d0, d1 = D[g][2c, 2c+1]   d2, d3 = D[g + 8][2c, 2c+1]
#pragma once

#include <cstdint>

namespace splitwave::cuda {

struct FragmentA {
  std::uint32_t r[4];
};

__device__ __forceinline__ void mma_f16(float (&d)[4], const FragmentA& a, std::uint32_t b0,
                                        std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void mma_bf16(float (&d)[4], const FragmentA& a, std::uint32_t b0,
                                         std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
}

}  // namespace splitwave::cuda
