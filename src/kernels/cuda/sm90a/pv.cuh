// O^T += V^T P of one 64-row block by one warpgroup: 256 value dims on M, heads on N. Owns the PV
// phase; the order of its k16 steps (list order) is part of the numerics class. Called by the
// kernels here.
//
// M-tile t of warpgroup u is the 64-dim group 4u + t, 16 dims a warp: whether a tile is fp8 or RoPE
// (V4's last) is known when the code is compiled. A branch between the two inside the loop would
// make ptxas wait, where its arms meet, for the loads of the next step.
#pragma once

#include "kernels/cuda/common/ptx.cuh"
#include "kernels/cuda/sm90a/config.h"
#include "kernels/cuda/sm90a/dequant.cuh"
#include "kernels/cuda/sm90a/fragment_map.h"
#include "kernels/cuda/sm90a/roles.cuh"
#include "kernels/cuda/sm90a/wgmma.cuh"

namespace splitwave::cuda::sm90a {

// Whether M-tile 3 of the warpgroup is the RoPE group.
template <class V, int Group>
inline constexpr bool k_has_rope_tile = V::shape.config.format == KvFormat::v4&& Group == 1;

// Raw V of one k16 step: 16 tokens x 16 dims of the four groups. word[2t], word[2t + 1]: group t,
// tokens 0..7 and 8..15, two tokens and two dims a word. A RoPE tile is an A operand as it is
// loaded. scale: what the thread's tokens (slots 2c, 2c + 1; 2c + 8, 2c + 9) are multiplied by: V4
// a 16-bit pair for each group, V3.2 two fp32 of each token.
struct PvRaw {
  std::uint32_t word[8];
  std::uint32_t rope[4];
  uint4 scale[2];
};

// Where a lane reads. Lane l names row l % 8 of 8x8 matrix l / 8 of a matrix load.
struct PvCursor {
  std::uint32_t fp8;     // within a stage: tokens 0..7 of group 4u, 8..15; the same of group 4u + 1
  std::uint32_t rope;    // tokens 0..7 of dims 0..7, of 8..15; then tokens 8..15
  std::uint32_t scales;  // within the block's scales
};

template <class V, int Group>
__device__ __forceinline__ PvCursor pv_cursor(int warp, int lane) {
  constexpr KvFormat k_format = V::shape.config.format;
  constexpr int k_row = sm90a_row_bytes(k_format);
  const int second = (lane >> 3) & 1;
  const int fourth = lane >> 4;
  const int token = token_of_row(lane & 7);
  const int c = lane & 3;
  PvCursor at;
  at.fp8 = (token + 8 * second) * k_row + Group * 256 + fourth * 64 + warp * 16;
  at.rope = (token + 8 * fourth) * k_row + k_v4_rope_offset_bytes + warp * 32 + second * 16;
  at.scales = k_format == KvFormat::v4 ? c * 32 + Group * 16 : c * 32 + Group * 8;
  return at;
}

template <class V, int Group>
__device__ __forceinline__ void load_pv_raw(PvRaw& raw, const PvCursor& at, std::uint32_t stage,
                                            std::uint32_t scales, int step) {
  const uint4 low = ptx::load_matrix_x4_transposed(stage + at.fp8);
  raw.word[0] = low.x, raw.word[1] = low.y, raw.word[2] = low.z, raw.word[3] = low.w;
  if constexpr (k_has_rope_tile<V, Group>) {
    const uint2 high = ptx::load_matrix_x2_transposed(stage + at.fp8 + 128);
    raw.word[4] = high.x, raw.word[5] = high.y;
    const uint4 rope = ptx::load_matrix_x4_transposed(stage + at.rope);
    raw.rope[0] = rope.x, raw.rope[1] = rope.y, raw.rope[2] = rope.z, raw.rope[3] = rope.w;
  } else {
    const uint4 high = ptx::load_matrix_x4_transposed(stage + at.fp8 + 128);
    raw.word[4] = high.x, raw.word[5] = high.y, raw.word[6] = high.z, raw.word[7] = high.w;
  }
  if constexpr (V::shape.config.format == KvFormat::v4) {
    raw.scale[0] = ptx::load_u128(scales + at.scales + step * 256);
    raw.scale[1] = ptx::load_u128(scales + at.scales + step * 256 + 128);
  } else {
    const uint2 a = ptx::load_u64(scales + at.scales + step * 256);
    const uint2 b = ptx::load_u64(scales + at.scales + step * 256 + 16);
    const uint2 c = ptx::load_u64(scales + at.scales + step * 256 + 128);
    const uint2 d = ptx::load_u64(scales + at.scales + step * 256 + 144);
    raw.scale[0] = {a.x, a.y, b.x, b.y};
    raw.scale[1] = {c.x, c.y, d.x, d.y};
  }
}

// A operands of the four M-tiles; see value_dim_of_row and rope_value_dim_of_row.
template <class V, int Group>
__device__ __forceinline__ void pv_operands(std::uint32_t (&a)[4][4], const PvRaw& raw) {
  constexpr bool k_f16 = V::shape.config.operands == OperandType::f16;
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    if (k_has_rope_tile<V, Group> && t == 3) {
#pragma unroll
      // A copy: the loads of the next steps must not land in registers that a wgmma still reads.
      for (int i = 0; i < 4; ++i)
        asm volatile("mov.b32 %0, %1;" : "=r"(a[t][i]) : "r"(raw.rope[i]));
    } else if constexpr (V::shape.config.format == KvFormat::v4) {
      const uint4& low = raw.scale[0];
      const uint4& high = raw.scale[1];
      dequant_column_word<k_f16>(raw.word[2 * t],
                                 t == 0   ? low.x
                                 : t == 1 ? low.y
                                 : t == 2 ? low.z
                                          : low.w,
                                 a[t][0], a[t][1]);
      dequant_column_word<k_f16>(raw.word[2 * t + 1],
                                 t == 0   ? high.x
                                 : t == 1 ? high.y
                                 : t == 2 ? high.z
                                          : high.w,
                                 a[t][2], a[t][3]);
    } else {
      // Scales of the first or second 128 dims: (token 2c, token 2c + 1), then the tokens eight
      // further.
      const uint4& low = raw.scale[0];
      const uint4& high = raw.scale[1];
      dequant_column_word_f32(raw.word[2 * t], scale_f32(t < 2 ? low.x : low.y),
                              scale_f32(t < 2 ? low.z : low.w), a[t][0], a[t][1]);
      dequant_column_word_f32(raw.word[2 * t + 1], scale_f32(t < 2 ? high.x : high.y),
                              scale_f32(t < 2 ? high.z : high.w), a[t][2], a[t][3]);
    }
  }
}

template <class V>
__device__ __forceinline__ void rescale(float (&o)[4][V::shape.config.block_heads / 2],
                                        std::uint32_t factors, int c) {
#pragma unroll
  for (int i = 0; i < V::shape.config.block_heads / 8; ++i) {
    const float2 f = ptx::load_f32x2(factors + (8 * i + 2 * c) * 4);
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      o[t][4 * i] *= f.x;
      o[t][4 * i + 1] *= f.y;
      o[t][4 * i + 2] *= f.x;
      o[t][4 * i + 3] *= f.y;
    }
  }
}

// Adds one block. first_slot: ring slot of its first stage; buffers: its slot of P, scales and
// factors. Releases each ring stage as soon as its bytes are in registers.
template <class V, int Group>
__device__ __forceinline__ void pv_block(float (&o)[4][V::shape.config.block_heads / 2],
                                         std::uint32_t smem, int first_slot, int buffers, int warp,
                                         int lane) {
  constexpr Sm90aShape k = V::shape;
  constexpr int k_n = k.config.block_heads;
  constexpr bool k_f16 = k.config.operands == OperandType::f16;
  int slot = first_slot;
  const PvCursor at = pv_cursor<V, Group>(warp, lane);
  const auto stage = [&](int s) { return smem + k.ring + s * k_stage_bytes<V>; };
  const std::uint32_t scales = smem + k.scale_t + buffers * 1024;
  const std::uint64_t p = b_descriptor(smem + k.p + buffers * (k_sm90a_block_rows * k_n * 2), k_n);
  PvRaw raw[2];
  load_pv_raw<V, Group>(raw[0], at, stage(slot), scales, 0);
  if (ptx::load_u32(smem + k.flag + buffers * 4) != 0) {
    rescale<V>(o, smem + k.factor + buffers * (k_n * 4), lane & 3);
  }
#pragma unroll
  for (int t = 0; t < 4; ++t) pin_registers(o[t]);
#pragma unroll
  for (int step = 0; step < k_sm90a_stages_per_block; ++step) {
    const int next = slot + 1 == k.stages ? 0 : slot + 1;
    // A step ahead: shared memory is busy with B, a load takes 100 clocks and more.
    if (step + 1 < k_sm90a_stages_per_block) {
      load_pv_raw<V, Group>(raw[(step + 1) & 1], at, stage(next), scales, step + 1);
    }
    std::uint32_t a[4][4];
    pv_operands<V, Group>(a, raw[step & 1]);
    wgmma_fence();
#pragma unroll
    for (int t = 0; t < 4; ++t)
      wgmma<k_n, k_f16>(o[t], a[t], p + static_cast<std::uint64_t>(step * 2 * k_n), true);
    wgmma_commit();
    __syncwarp();
    if (lane == 0) ptx::barrier_arrive(smem + k.empty + slot * 8);
    slot = next;
    if (step > 0) wgmma_wait<1>();
  }
  wgmma_wait<0>();
#pragma unroll
  for (int t = 0; t < 4; ++t) pin_registers(o[t]);
}

}  // namespace splitwave::cuda::sm90a
