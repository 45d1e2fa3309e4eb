// The AVX-512-BF16 table. Owns the question whether this processor has vdpbf16ps; Highway 1.0.3 has
// no such target. Called by decode_simd.cpp, which lists it first: other operands, its own numerics
// class.
#pragma once

#include "kernels/cpu/decode_kernels.h"

namespace splitwave::cpu {

// Null where the build is not for x86-64. fp32: the AVX-512 table, whose decoders and softmax it
// uses.
[[nodiscard]] const DecodeKernels* avx512bf16_kernels(const DecodeKernels& fp32);
// cpuid's AVX512_BF16 and the operating system's support of the registers.
[[nodiscard]] bool has_avx512bf16();

}  // namespace splitwave::cpu
