// O^T += V^T P of one 64-row block for a warpgroup's tiles of 64 value dims, from the CTA's value
// columns. Owns the PV phase of cluster kernels; operand values and the order of k16 steps are
// pv.cuh's, part of the numerics class.
#pragma once

#include "kernels/cuda/common/ptx.cuh"
#include "kernels/cuda/sm90a/cluster_producer.cuh"
#include "kernels/cuda/sm90a/dequant.cuh"
#include "kernels/cuda/sm90a/fragment_map.h"
#include "kernels/cuda/sm90a/wgmma.cuh"

namespace splitwave::cuda::sm90a {

// Raw bytes of a block: of each k16 step 16 tokens x 16 dims of each tile.
template <class V>
struct ValueRaw {
  std::uint32_t word[4][V::shape.tiles][2];
  std::uint32_t rope[4][4];
};

// What the thread's tokens of a k16 step (slots 2c, 2c + 1; then eight further) are multiplied by:
// V4 a 16-bit pair for each tile (RoPE's: how far the scales were shifted), V3.2 two fp32.
struct ValueScales {
  std::uint32_t low[2], high[2];
};

// What a warp adds blocks with.
template <class V>
struct ValueWarp {
  static constexpr auto k = V::shape;
  static constexpr int k_n = k.config.block_heads;
  static constexpr int k_tiles = k.tiles;
  static constexpr bool k_v4 = k.config.format == KvFormat::v4;
  static constexpr int k_row = sm90a_value_row_bytes(k.config.format, k_tiles);
  static constexpr int k_rope = (2 * k_tiles - 1) * 64;  // of a value row of the last CTA

  std::uint32_t smem;
  int group, warp;

  // Waits for the block at a ring position and reads the warp's part of it.
  template <bool HasRope>
  __device__ __forceinline__ void load(ValueRaw<V>& raw, StagePosition at) const {
    const int lane = lane_now();
    const int second = (lane >> 3) & 1;
    const int fourth = lane >> 4;
    const int token = token_of_row(lane & 7);
    const std::uint32_t block = smem + k.value + at.slot * (k_sm90a_block_rows * k_row);
    const std::uint32_t fp8 = block + (token + 8 * second) * k_row + group * (k_tiles * 64) +
                              (k_tiles == 2 ? fourth * 64 : 0) + warp * 16;
    const std::uint32_t rope =
        block + (token + 8 * fourth) * k_row + k_rope + warp * 32 + second * 16;
    ptx::barrier_wait(smem + k.value_full + 8 * at.slot, at.parity);
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const std::uint32_t step = s * (k_sm90a_stage_rows * k_row);
      if constexpr (k_tiles == 2 && !HasRope) {
        const uint4 v = ptx::load_matrix_x4_transposed(fp8 + step);
        raw.word[s][0][0] = v.x, raw.word[s][0][1] = v.y;
        raw.word[s][1][0] = v.z, raw.word[s][1][1] = v.w;
      } else if constexpr (k_tiles == 2 || !HasRope) {
        const uint2 v = ptx::load_matrix_x2_transposed(fp8 + step);
        raw.word[s][0][0] = v.x, raw.word[s][0][1] = v.y;
      }
      if constexpr (HasRope) {
        const uint4 v = ptx::load_matrix_x4_transposed(rope + step);
        raw.rope[s][0] = v.x, raw.rope[s][1] = v.y, raw.rope[s][2] = v.z, raw.rope[s][3] = v.w;
      }
    }
  }

  // scales: of the block.
  __device__ __forceinline__ ValueScales scales_of(std::uint32_t scales, int s) const {
    const int c = lane_now() & 3;
    ValueScales r;
    if constexpr (k_v4) {
      const std::uint32_t at = scales + (s * 8 + c) * (8 * k_tiles) + group * (4 * k_tiles);
      if constexpr (k_tiles == 2) {
        const uint2 low = ptx::load_u64(at);
        const uint2 high = ptx::load_u64(at + 4 * 8 * k_tiles);
        r = {{low.x, low.y}, {high.x, high.y}};
      } else {
        r.low[0] = ptx::load_u32(at);
        r.high[0] = ptx::load_u32(at + 4 * 8 * k_tiles);
      }
    } else {
      const std::uint32_t at = scales + (s * 16 + 2 * c) * (4 * k_tiles);
      if constexpr (k_tiles == 2) {
        const uint4 low = ptx::load_u128(at);
        const uint4 high = ptx::load_u128(at + 8 * 8);
        r = group == 0 ? ValueScales{{low.x, low.z}, {high.x, high.z}}
                       : ValueScales{{low.y, low.w}, {high.y, high.w}};
      } else {
        const uint2 low = ptx::load_u64(at);
        const uint2 high = ptx::load_u64(at + 8 * 4);
        r = {{low.x, low.y}, {high.x, high.y}};
      }
    }
    return r;
  }

  // A operands of k16 step s.
  template <bool HasRope>
  __device__ __forceinline__ void operands(std::uint32_t (&a)[k_tiles][4], const ValueRaw<V>& raw,
                                           const ValueScales& scales, int s) const {
#pragma unroll
    for (int t = 0; t < k_tiles; ++t) {
      if (HasRope && t == k_tiles - 1) {
        // 2^-shift of the tokens; 1 but for scales above the operand's largest: see qk.cuh.
        const std::uint32_t low = (0x007F007FU - scales.low[t]) << 7;
        const std::uint32_t high = (0x007F007FU - scales.high[t]) << 7;
        a[t][0] = multiply_bf16x2(raw.rope[s][0], low);
        a[t][1] = multiply_bf16x2(raw.rope[s][1], low);
        a[t][2] = multiply_bf16x2(raw.rope[s][2], high);
        a[t][3] = multiply_bf16x2(raw.rope[s][3], high);
      } else if constexpr (k_v4) {
        dequant_column_word<false>(raw.word[s][t][0], scales.low[t], a[t][0], a[t][1]);
        dequant_column_word<false>(raw.word[s][t][1], scales.high[t], a[t][2], a[t][3]);
      } else {
        dequant_column_word_f32(raw.word[s][t][0], scale_f32(scales.low[0]),
                                scale_f32(scales.low[1]), a[t][0], a[t][1]);
        dequant_column_word_f32(raw.word[s][t][1], scale_f32(scales.high[0]),
                                scale_f32(scales.high[1]), a[t][2], a[t][3]);
      }
    }
  }

  __device__ __forceinline__ void rescale(float (&o)[k_tiles][k_n / 2],
                                          std::uint32_t factors) const {
    const int c = lane_now() & 3;
#pragma unroll
    for (int i = 0; i < k_n / 8; ++i) {
      const float2 f = ptx::load_f32x2(factors + (8 * i + 2 * c) * 4);
#pragma unroll
      for (int t = 0; t < k_tiles; ++t) {
        o[t][4 * i] *= f.x;
        o[t][4 * i + 1] *= f.y;
        o[t][4 * i + 2] *= f.x;
        o[t][4 * i + 3] *= f.y;
      }
    }
  }
};

}  // namespace splitwave::cuda::sm90a
