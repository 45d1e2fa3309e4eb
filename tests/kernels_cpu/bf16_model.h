// The bf16 kernel over a software model of vdpbf16ps. Owns the table; bf16_model.cpp is the only
// test file compiled for AVX-512, so nothing else can run such instructions by accident.
#pragma once

#include "kernels/cpu/decode_kernels.h"

namespace splitwave::cpu {

// Call only where fp32, the AVX-512 table, is runnable.
[[nodiscard]] const DecodeKernels& bf16_model_kernels(const DecodeKernels& fp32);

// One staged panel as the kernel decodes it: K rows of 64 bf16 and V pairs of 64 (see the kernel).
void bf16_model_panel(const DecodeKernels& fp32, const TileTask& task, int panel, std::uint16_t* k,
                      std::uint32_t* v);

}  // namespace splitwave::cpu
