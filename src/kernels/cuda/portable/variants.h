// The portable family's variants, as data. Owns every number that a portable kernel is compiled
// with; one .cu instantiates each. `archs` must agree with the variant's line in CMakeLists.txt (a
// test compares them). All variants with one tile are one numerics class: bitwise equal.
#pragma once

#include <array>

#include "kernels/cuda/portable/config.h"

namespace splitwave::cuda {

// Hopper: 227 KB of shared memory. Order: the planner's preference within ties is the larger block.
inline constexpr PortableConfig k_v4_mma_n32 = {
    .name = "v4_mma_n32", .format = KvFormat::v4, .block_heads = 32, .qk_warps = 4, .qk_tiles = 1,
    .pv_warps = 8, .producer_warps = 4, .stage_rows = 32, .stages = 9, .ctas_per_sm = 1,
    .archs = {90}};
inline constexpr PortableConfig k_v4_mma_n16 = {
    .name = "v4_mma_n16", .format = KvFormat::v4, .block_heads = 16, .qk_warps = 4, .qk_tiles = 1,
    .pv_warps = 8, .producer_warps = 4, .stage_rows = 32, .stages = 10, .ctas_per_sm = 1,
    .archs = {90}};
inline constexpr PortableConfig k_v4_mma_n8 = {
    .name = "v4_mma_n8", .format = KvFormat::v4, .block_heads = 8, .qk_warps = 4, .qk_tiles = 1,
    .pv_warps = 8, .producer_warps = 4, .stage_rows = 32, .stages = 10, .ctas_per_sm = 1,
    .archs = {90}};

// A100: 163 KB.
inline constexpr PortableConfig k_v4_mma_n32_s163 = {
    .name = "v4_mma_n32_s163", .format = KvFormat::v4, .block_heads = 32, .qk_warps = 4,
    .qk_tiles = 1, .pv_warps = 8, .producer_warps = 4, .stage_rows = 32, .stages = 6,
    .ctas_per_sm = 1, .archs = {80}};
inline constexpr PortableConfig k_v4_mma_n16_s163 = {
    .name = "v4_mma_n16_s163", .format = KvFormat::v4, .block_heads = 16, .qk_warps = 4,
    .qk_tiles = 1, .pv_warps = 8, .producer_warps = 4, .stage_rows = 32, .stages = 7,
    .ctas_per_sm = 1, .archs = {80}};

// 99 KB: Ada, Ampere consumer, Blackwell consumer. Compiled for sm_90 too, where its bits are
// checked.
inline constexpr PortableConfig k_v4_mma_n32_s99 = {
    .name = "v4_mma_n32_s99", .format = KvFormat::v4, .block_heads = 32, .qk_warps = 4,
    .qk_tiles = 1, .pv_warps = 8, .producer_warps = 4, .stage_rows = 16, .stages = 5,
    .ctas_per_sm = 1, .archs = {86, 89, 90, 120}};
inline constexpr PortableConfig k_v4_mma_n16_s99 = {
    .name = "v4_mma_n16_s99", .format = KvFormat::v4, .block_heads = 16, .qk_warps = 4,
    .qk_tiles = 1, .pv_warps = 8, .producer_warps = 4, .stage_rows = 16, .stages = 7,
    .ctas_per_sm = 1, .archs = {86, 89, 90, 120}};

// 49 KB and 128 registers at 256 threads: two CTAs an SM where an SM has 100 KB.
inline constexpr PortableConfig k_v4_mma_n8_s49 = {
    .name = "v4_mma_n8_s49", .format = KvFormat::v4, .block_heads = 8, .qk_warps = 2, .qk_tiles = 2,
    .pv_warps = 4, .producer_warps = 2, .stage_rows = 16, .stages = 4, .ctas_per_sm = 2,
    .archs = {80, 86, 89, 90, 120}};

inline constexpr PortableConfig k_v32_mma_n32 = {
    .name = "v32_mma_n32", .format = KvFormat::v32, .block_heads = 32, .qk_warps = 4, .qk_tiles = 1,
    .pv_warps = 8, .producer_warps = 4, .stage_rows = 32, .stages = 7, .ctas_per_sm = 1,
    .archs = {90}};
inline constexpr PortableConfig k_v32_mma_n16 = {
    .name = "v32_mma_n16", .format = KvFormat::v32, .block_heads = 16, .qk_warps = 4, .qk_tiles = 1,
    .pv_warps = 8, .producer_warps = 4, .stage_rows = 32, .stages = 6, .ctas_per_sm = 1,
    .archs = {80, 90}};
inline constexpr PortableConfig k_v32_mma_n8_s99 = {
    .name = "v32_mma_n8_s99", .format = KvFormat::v32, .block_heads = 8, .qk_warps = 4,
    .qk_tiles = 1, .pv_warps = 8, .producer_warps = 4, .stage_rows = 16, .stages = 7,
    .ctas_per_sm = 1, .archs = {80, 86, 89, 90, 120}};
inline constexpr PortableConfig k_v32_mma_n16_s99 = {
    .name = "v32_mma_n16_s99", .format = KvFormat::v32, .block_heads = 16, .qk_warps = 4,
    .qk_tiles = 1, .pv_warps = 8, .producer_warps = 4, .stage_rows = 16, .stages = 5,
    .ctas_per_sm = 1, .archs = {86, 89, 90, 120}};

inline constexpr std::array k_portable_shapes = {
    shape_of(k_v4_mma_n32),      shape_of(k_v4_mma_n16),      shape_of(k_v4_mma_n8),
    shape_of(k_v4_mma_n32_s163), shape_of(k_v4_mma_n16_s163), shape_of(k_v4_mma_n32_s99),
    shape_of(k_v4_mma_n16_s99),  shape_of(k_v4_mma_n8_s49),   shape_of(k_v32_mma_n32),
    shape_of(k_v32_mma_n16),     shape_of(k_v32_mma_n16_s99), shape_of(k_v32_mma_n8_s99)};

}  // namespace splitwave::cuda
