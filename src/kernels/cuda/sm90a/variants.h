// The sm_90a variants as data. Owns the list; the registry turns it into traits. A new variant: one
// aggregate and one line of k_sm90a_shapes here, one .cu, one line in the build list.
#pragma once

#include <array>

#include "kernels/cuda/sm90a/config.h"

namespace splitwave::cuda {

inline constexpr Sm90aConfig k_v4_wgmma_n64 = {
    .name = "v4_wgmma_n64", .format = KvFormat::v4, .block_heads = 64};
inline constexpr Sm90aConfig k_v4_wgmma_n32 = {.name = "v4_wgmma_n32",
                                               .format = KvFormat::v4,
                                               .block_heads = 32,
                                               .math_registers = 216,
                                               .producer_registers = 72};
inline constexpr Sm90aConfig k_v4_wgmma_n16 = {.name = "v4_wgmma_n16",
                                               .format = KvFormat::v4,
                                               .block_heads = 16,
                                               .math_registers = 208,
                                               .producer_registers = 88};
inline constexpr Sm90aConfig k_v4_wgmma_n8 = {.name = "v4_wgmma_n8",
                                              .format = KvFormat::v4,
                                              .block_heads = 8,
                                              .math_registers = 208,
                                              .producer_registers = 88};
inline constexpr Sm90aConfig k_v4_f16_wgmma_n64 = {.name = "v4_f16_wgmma_n64",
                                                   .format = KvFormat::v4,
                                                   .operands = OperandType::f16,
                                                   .block_heads = 64,
                                                   .is_experiment_arm = true};
inline constexpr Sm90aConfig k_v4_f16_wgmma_n16 = {.name = "v4_f16_wgmma_n16",
                                                   .format = KvFormat::v4,
                                                   .operands = OperandType::f16,
                                                   .block_heads = 16,
                                                   .math_registers = 208,
                                                   .producer_registers = 88,
                                                   .is_experiment_arm = true};
// V3.2: P as one bf16 term misses the bound on three cases (docs/kernels/sm90a.md): asked for by
// name, never chosen.
inline constexpr Sm90aConfig k_v32_wgmma_n64 = {
    .name = "v32_wgmma_n64", .format = KvFormat::v32, .block_heads = 64, .is_experiment_arm = true};
inline constexpr Sm90aConfig k_v32_wgmma_n32 = {.name = "v32_wgmma_n32",
                                                .format = KvFormat::v32,
                                                .block_heads = 32,
                                                .math_registers = 208,
                                                .producer_registers = 88,
                                                .is_experiment_arm = true};
inline constexpr Sm90aConfig k_v32_wgmma_n16 = {.name = "v32_wgmma_n16",
                                                .format = KvFormat::v32,
                                                .block_heads = 16,
                                                .math_registers = 208,
                                                .producer_registers = 88,
                                                .is_experiment_arm = true};
inline constexpr Sm90aConfig k_v32_wgmma_n8 = {.name = "v32_wgmma_n8",
                                               .format = KvFormat::v32,
                                               .block_heads = 8,
                                               .math_registers = 208,
                                               .producer_registers = 88,
                                               .is_experiment_arm = true};

inline constexpr std::array k_sm90a_shapes = {
    sm90a_shape(k_v4_wgmma_n64),  sm90a_shape(k_v4_wgmma_n32),     sm90a_shape(k_v4_wgmma_n16),
    sm90a_shape(k_v4_wgmma_n8),   sm90a_shape(k_v4_f16_wgmma_n64), sm90a_shape(k_v4_f16_wgmma_n16),
    sm90a_shape(k_v32_wgmma_n64), sm90a_shape(k_v32_wgmma_n32),    sm90a_shape(k_v32_wgmma_n16),
    sm90a_shape(k_v32_wgmma_n8)};

}  // namespace splitwave::cuda
