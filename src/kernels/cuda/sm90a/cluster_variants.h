// The sm_90a cluster variants as data. Owns the list; the registry turns it into traits.
#pragma once

#include <array>

#include "kernels/cuda/sm90a/cluster_config.h"

namespace splitwave::cuda {

inline constexpr Sm90aClusterConfig k_v4_wgmma_n16_c4 = {
    .name = "v4_wgmma_n16_c4", .block_heads = 16, .ctas = 4};
inline constexpr Sm90aClusterConfig k_v4_wgmma_n32_c4 = {
    .name = "v4_wgmma_n32_c4", .block_heads = 32, .ctas = 4};
inline constexpr Sm90aClusterConfig k_v4_wgmma_n16_c2 = {
    .name = "v4_wgmma_n16_c2", .block_heads = 16, .ctas = 2};
inline constexpr Sm90aClusterConfig k_v32_wgmma_n32_c4 = {.name = "v32_wgmma_n32_c4",
                                                          .format = KvFormat::v32,
                                                          .block_heads = 32,
                                                          .ctas = 4,
                                                          .is_experiment_arm = true};

inline constexpr std::array k_sm90a_cluster_shapes = {
    sm90a_cluster_shape(k_v4_wgmma_n16_c4), sm90a_cluster_shape(k_v4_wgmma_n32_c4),
    sm90a_cluster_shape(k_v4_wgmma_n16_c2), sm90a_cluster_shape(k_v32_wgmma_n32_c4)};

}  // namespace splitwave::cuda
