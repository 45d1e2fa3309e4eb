// The sm_90a family's configuration. Owns what a variant chooses (Sm90aConfig) and everything that
// follows from it: barriers, the shared-memory plan. Standard library only: the registry publishes
// the same numbers that the kernel is compiled with. docs/kernels/sm90a.md has the arithmetic.
//
// A CTA attends `block_heads` heads of one row. Warps 0..3 and 4..7 are two math warpgroups, 8..11
// the gather. K (tokens) and V^T (dims) are the A operand of wgmma, converted in registers from the
// raw fp8 rows in shared memory; heads are the N side, so 8 heads cost 8 heads.
#pragma once

#include "splitwave/layout.h"
#include "splitwave/problem.h"

namespace splitwave::cuda {

struct Sm90aConfig {
  const char* name = "";
  KvFormat format = KvFormat::v4;
  OperandType operands = OperandType::bf16;
  int block_heads = 64;      // N: 8, 16, 32 or 64
  int math_registers = 232;  // after setmaxnreg; 2 * math + producer <= 504 (384 threads at 168)
  int producer_registers = 40;
  bool is_experiment_arm = false;
};

inline constexpr int k_sm90a_block_rows =
    64;  // list positions of one softmax step: a warpgroup's M
inline constexpr int k_sm90a_stage_rows = 16;  // rows of a ring stage: a warp's share of a block
inline constexpr int k_sm90a_stages_per_block = k_sm90a_block_rows / k_sm90a_stage_rows;
inline constexpr int k_sm90a_block_slots = 3;  // blocks between their softmax and their last PV
inline constexpr int k_sm90a_math_warps = 8;
inline constexpr int k_sm90a_producer_warps = 4;
inline constexpr int k_sm90a_threads = (k_sm90a_math_warps + k_sm90a_producer_warps) * 32;
inline constexpr int k_sm90a_registers = 168;  // at launch, before the roles share them out
inline constexpr int k_sm90a_shared_bytes_max = 232448;  // opt-in limit of one CTA

// Hardware barriers (0 is __syncthreads, set-up only). Who arrives -> who waits:
enum Sm90aBarrier : int {
  k_bar_group = 1,   // +warpgroup: its 128 threads; P of its block is written, and the vote on it
  k_bar_p_full = 3,  // +owner: the owner arrives -> the other warpgroup
  k_bar_math = 5,    // both math warpgroups
};

// Bytes of a raw row in the ring.
//   V4:   [0, 576) data row, [576, 584) scale row, [584, 592) pad: 80 mod 128
//   V3.2: [0, 656) the interleaved row: 16 mod 128
// Eight rows at one column start in eight different 16-byte bank groups (ldmatrix in PV); rows four
// apart are 64 bytes apart mod 128 (the QK loads of two rows x 64 bytes a quarter warp: see
// token_of_row).
[[nodiscard]] consteval int sm90a_row_bytes(KvFormat f) { return f == KvFormat::v32 ? 656 : 592; }
[[nodiscard]] consteval int sm90a_rope_offset_bytes(KvFormat f) {
  return f == KvFormat::v32 ? k_v32_rope_offset_bytes : k_v4_rope_offset_bytes;
}
// Bytes of a staged output row: 1,024 and a pad that shifts heads by 4 banks, so that the 8 x 4
// lanes of a store (8 words of dims, heads 2 apart) meet 32 banks.
inline constexpr int k_sm90a_out_row_bytes = 1040;
// 64-dim groups of a K row, the RoPE group included.
[[nodiscard]] consteval int sm90a_groups(KvFormat f) { return qk_dims(f) / 64; }

// Offsets in dynamic shared memory, bytes.
//   q        [qk_dims / 8][heads / 8][8 heads][8 k] 16-bit    core matrices, B of QK
//   p        [3][8][heads / 8][8 heads][8 tokens] 16-bit      core matrices, B of PV; by block slot
//   out      [heads][1040 bytes]: 512 bf16 and a pad: over q and p, once an item's last PV is done
//   ring     [stages][16][row bytes]                          raw rows
//   scale_t  [3] x 1024    V4: 16-bit [32 row pairs][8 groups][2]; V3.2: fp32 [64][4]; by block
//   slot scale_q  [8 warps][16 tokens][8] 16-bit  the tile's operand scales; entry 7: its shift
//   (V4) sum      [3][2][4 warps][heads] fp32     sums of a block by slot, of P and of P as
//   rounded;
//            scratch of the slow path
//   factor   [3][heads] fp32                 what O and l are multiplied by before the block is
//   added m, m_use [heads] fp32                    softmax reference (-inf: unset), and the one to
//   subtract l        [2][heads] fp32                 sums of the blocks added so far: of P, of P
//   as rounded inverse  [heads] fp32                    what O is multiplied by at the end ratio
//   [heads] fp32                    l by P / l by rounded P: see softmax.cuh flag     [3] u32 some
//   factor of the block is not 1 zero     256 bytes of zeros              B of the NaN probe folded
//   [heads][2] fp32                 (m, l) of the item's chunks so far info     [2] Item by parity
//   of the CTA's item count kept     [12 warps][8] i32               see MathWarp::Kept; of the
//   gather, its item count valid    [stages] u32                    bit r: row r of the stage is
//   valid barriers u64: full[stages], empty[stages], block_free[3], info_full[2], info_empty[2]
struct Sm90aShape {
  Sm90aConfig config;
  int stages = 0;
  int q = 0, p = 0, out = 0, ring = 0, scale_t = 0, scale_q = 0, sum = 0, factor = 0, m = 0,
      m_use = 0, l = 0, inverse = 0, ratio = 0, flag = 0, zero = 0, folded = 0, info = 0, kept = 0,
      valid = 0, full = 0, empty = 0, block_free = 0, info_full = 0, info_empty = 0, bytes = 0;
};

[[nodiscard]] consteval Sm90aShape sm90a_shape_with(const Sm90aConfig& c, int stages) {
  Sm90aShape s;
  s.config = c;
  s.stages = stages;
  int at = 0;
  const auto take = [&at](int bytes) {
    const int offset = at;
    at += (bytes + 15) / 16 * 16;
    return offset;
  };
  s.q = take(c.block_heads * qk_dims(c.format) * 2);
  s.p = take(k_sm90a_block_slots * k_sm90a_block_rows * c.block_heads * 2);
  s.out = s.q;
  s.ring = take(stages * k_sm90a_stage_rows * sm90a_row_bytes(c.format));
  s.scale_t = take(k_sm90a_block_slots * 1024);
  s.scale_q = take(c.format == KvFormat::v4 ? k_sm90a_math_warps * 16 * 16 : 0);
  s.sum = take(k_sm90a_block_slots * 2 * 4 * c.block_heads * 4);
  s.factor = take(k_sm90a_block_slots * c.block_heads * 4);
  s.m = take(c.block_heads * 4);
  s.m_use = take(c.block_heads * 4);
  s.l = take(2 * c.block_heads * 4);
  s.inverse = take(c.block_heads * 4);
  s.ratio = take(c.block_heads * 4);
  s.flag = take(k_sm90a_block_slots * 4);
  s.zero = take(256);
  s.folded = take(c.block_heads * 8);
  s.info = take(2 * 32);
  s.kept = take(k_sm90a_threads);
  s.valid = take(stages * 4);
  s.full = take(stages * 8);
  s.empty = take(stages * 8);
  s.block_free = take(k_sm90a_block_slots * 8);
  s.info_full = take(2 * 8);
  s.info_empty = take(2 * 8);
  s.bytes = at;
  return s;
}

// As many stages as fit: the ring hides the latency of random rows.
[[nodiscard]] consteval Sm90aShape sm90a_shape(const Sm90aConfig& c) {
  constexpr int k_stages_max = 32;
  int stages = 1;
  while (stages < k_stages_max && sm90a_shape_with(c, stages + 1).bytes <= k_sm90a_shared_bytes_max)
    ++stages;
  return sm90a_shape_with(c, stages);
}

}  // namespace splitwave::cuda
