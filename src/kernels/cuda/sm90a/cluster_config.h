// Configuration of the sm_90a kernels that spread one item over the CTAs of a cluster. Owns what a
// variant chooses (Sm90aClusterConfig) and the shared-memory plan that follows. Standard library
// only. No arithmetic differs from the family's one-CTA kernels: the numerics class is theirs.
//
// Of C CTAs with two math warpgroups each, the warpgroup of rank r and group g scores block
// round * 2C + C * g + r of a chunk and adds every block to value dims [64 T (2r + g), + 64 T),
// T = 4 / C tiles of 64 dims. Maxima and P travel through distributed shared memory.
#pragma once

#include "kernels/cuda/sm90a/config.h"

namespace splitwave::cuda {

struct Sm90aClusterConfig {
  const char* name = "";
  KvFormat format = KvFormat::v4;
  OperandType operands = OperandType::bf16;
  int block_heads = 16;  // N: 8, 16, 32 or 64
  int ctas = 2;          // C: 2 or 4
  int score_stages = 8;  // ring stages of rows to be scored: 8 a round
  int math_registers = 208;
  int producer_registers = 88;
  bool is_experiment_arm = false;
};

inline constexpr int k_sm90a_score_stages_per_round = 8;  // two blocks a CTA

// A value row in the ring: the CTA's groups; RoPE, 128 bytes, is V4's last. The stride is 16 or 80
// mod 128: eight rows at one column start in eight 16-byte bank groups.
[[nodiscard]] consteval int sm90a_value_row_bytes(KvFormat f, int tiles) {
  return 2 * tiles * 64 + (f == KvFormat::v4 ? 64 : 0) + 16;
}

// Offsets in dynamic shared memory, bytes. slot: a block of a round, C * group + rank, 2C of them.
//   q, scale_q, zero, folded, inverse, info, sum (here fold weights only): as in Sm90aShape
//   p        [slots][8][heads / 8][8 heads][8 tokens] 16-bit   P of a round
//   score    [score_stages][16][row bytes]       rows to be scored
//   value    [value_blocks][64][value row bytes] value columns of every row of the item
//   scale_v  [slots][1024 / C]   what the CTA's value columns are multiplied by, by fragment row:
//            V4 16-bit [32 row pairs][2T groups][2], RoPE's entry: the shift; V3.2 fp32 [64][2T /
//            2]
//   scale_s  [2 groups][C][1024 / C]             the same of the own blocks, for the other CTAs
//   max      [2][slots][heads] fp32              a round's maxima, by its parity
//   total    [slots][2][4 warps][heads] fp32     sums of a round's blocks, of P and of P as rounded
//   warp_max [2 groups][4][heads] fp32
//   m, m_use [2 groups][heads] fp32              the reference, a copy for each warpgroup
//   factor   [2 groups][slots][heads] fp32       what O is multiplied by before a block is added
//   flags    [2 groups][8] u32                   by warp: saw an fp8 NaN code; blocks with a factor
//   valid    [score_stages] u32
//   barriers u64: score_full, score_empty [stages], value_full, value_empty [blocks], max_full[2],
//            p_full[slots], p_free[2 groups], info_full[2], info_empty[2]
struct Sm90aClusterShape {
  Sm90aClusterConfig config;
  int tiles = 0, slots = 0, score_stages = 0, value_blocks = 0;
  int q = 0, p = 0, score = 0, value = 0, scale_v = 0, scale_s = 0, scale_q = 0, max = 0, total = 0,
      warp_max = 0, m = 0, m_use = 0, factor = 0, flags = 0, zero = 0, folded = 0, sum = 0,
      inverse = 0, ratio = 0, info = 0, valid = 0, score_full = 0, score_empty = 0, value_full = 0,
      value_empty = 0, max_full = 0, p_full = 0, p_free = 0, info_full = 0, info_empty = 0,
      bytes = 0;
};

[[nodiscard]] consteval Sm90aClusterShape sm90a_cluster_shape_with(const Sm90aClusterConfig& c,
                                                                   int value_blocks) {
  Sm90aClusterShape s;
  s.config = c;
  s.tiles = 4 / c.ctas;
  s.slots = 2 * c.ctas;
  s.score_stages = c.score_stages;
  s.value_blocks = value_blocks;
  const int n = c.block_heads;
  int at = 0;
  const auto take = [&at](int bytes) {
    const int offset = at;
    at += (bytes + 15) / 16 * 16;
    return offset;
  };
  s.q = take(n * qk_dims(c.format) * 2);
  s.p = take(s.slots * k_sm90a_block_rows * n * 2);
  s.score = take(s.score_stages * k_sm90a_stage_rows * sm90a_row_bytes(c.format));
  s.value = take(value_blocks * k_sm90a_block_rows * sm90a_value_row_bytes(c.format, s.tiles));
  s.scale_q = take(c.format == KvFormat::v4 ? k_sm90a_math_warps * 16 * 16 : 0);
  s.scale_v = take(s.slots * (1024 / c.ctas));
  s.scale_s = take(2 * 1024);
  s.max = take(2 * s.slots * n * 4);
  s.total = take(s.slots * 2 * 4 * n * 4);
  s.warp_max = take(2 * 4 * n * 4);
  s.m = take(2 * n * 4);
  s.m_use = take(2 * n * 4);
  s.factor = take(2 * s.slots * n * 4);
  s.flags = take(2 * 8 * 4);
  s.zero = take(256);
  s.folded = take(n * 8);
  s.sum = take(2 * n * 4);
  s.inverse = take(n * 4);
  s.ratio = take(n * 4);
  s.info = take(2 * 32);
  s.valid = take(s.score_stages * 4);
  s.score_full = take(s.score_stages * 8);
  s.score_empty = take(s.score_stages * 8);
  s.value_full = take(value_blocks * 8);
  s.value_empty = take(value_blocks * 8);
  s.max_full = take(2 * 8);
  s.p_full = take(s.slots * 8);
  s.p_free = take(2 * 8);
  s.info_full = take(2 * 8);
  s.info_empty = take(2 * 8);
  s.bytes = at;
  return s;
}

// As many value blocks as fit; two rounds of them are never useful.
[[nodiscard]] consteval Sm90aClusterShape sm90a_cluster_shape(const Sm90aClusterConfig& c) {
  int blocks = 1;
  while (blocks < 4 * c.ctas &&
         sm90a_cluster_shape_with(c, blocks + 1).bytes <= k_sm90a_shared_bytes_max)
    ++blocks;
  return sm90a_cluster_shape_with(c, blocks);
}

}  // namespace splitwave::cuda
