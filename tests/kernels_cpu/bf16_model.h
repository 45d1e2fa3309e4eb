// The bf16 kernel over a software model of vdpbf16ps. Owns the table; bf16_model.cpp is the only
// test file compiled for AVX-512, so nothing else can run such instructions by accident.
#pragma once

#include "kernels/cpu/decode_kernels.h"

namespace splitwave::cpu {

// Call only where fp32, the AVX-512 table, is runnable.
[[nodiscard]] const DecodeKernels& bf16_model_kernels(const DecodeKernels& fp32);

}  // namespace splitwave::cpu
