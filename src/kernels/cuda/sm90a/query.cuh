// Q into shared memory, in the order that the dequantiser's fragments want. Owns that permutation's
// device side; each math warp moves whole (64-dim group, head octet) tasks. Heads beyond the
// caller's are zeros. A negative softmax scale is folded into Q's sign, so that the softmax sees a
// positive one.
#pragma once

#include "kernels/cuda/common/params.h"
#include "kernels/cuda/sm90a/dequant.cuh"
#include "kernels/cuda/sm90a/fragment_map.h"
#include "kernels/cuda/sm90a/roles.cuh"

namespace splitwave::cuda::sm90a {

// before_store runs between the loads and the first store to shared memory.
template <class V, class BeforeStore>
__device__ __forceinline__ void load_q(const DecodeParams& p, std::uint32_t smem, const Item& item,
                                       std::uint32_t sign, int warp, int lane,
                                       BeforeStore before_store) {
  constexpr auto k = V::shape;
  constexpr int k_n = k.config.block_heads;
  constexpr int k_octets = k_n / 8;
  constexpr int k_tasks = sm90a_groups(k.config.format) * k_octets;
  constexpr int k_rounds = (k_tasks + k_sm90a_math_warps - 1) / k_sm90a_math_warps;
  constexpr bool k_f16 = k.config.operands == OperandType::f16;
  constexpr int k_rope_begin = sm90a_groups(k.config.format) * 64 - k_rope_dims;
  const int c = lane & 3;
  uint4 piece[k_rounds][2];  // all loads first: one latency
#pragma unroll
  for (int i = 0; i < k_rounds; ++i) {
    const int task = warp + i * k_sm90a_math_warps;
    const int unit = task / k_octets;
    const int head = item.head_block * k_n + (task % k_octets) * 8 + (lane >> 2);
    piece[i][0] = piece[i][1] = uint4{0, 0, 0, 0};
    if (task < k_tasks && head < p.heads) {
      // k order of QK: the RoPE group first (its operand needs no scale, so its matrix instructions
      // cover the latency of the scale table), then the fp8 groups. Dims of a thread: see
      // rope_dim_of_slot and fp8_dim_of_slot.
      const std::uint16_t* from = p.q + item.row * p.q_row_stride + head * p.q_head_stride;
      from += unit == 0 ? k_rope_begin + 8 * c : (unit - 1) * 64 + 16 * c;
      piece[i][0] = __ldg(reinterpret_cast<const uint4*>(from));
      piece[i][1] = __ldg(reinterpret_cast<const uint4*>(from + (unit == 0 ? 32 : 8)));
    }
  }
  before_store();
#pragma unroll
  for (int i = 0; i < k_rounds; ++i) {
    const int task = warp + i * k_sm90a_math_warps;
    if (task >= k_tasks) break;
    const std::uint32_t to = smem + k.q + (task % k_octets) * 128 + (lane >> 2) * 16 + c * 4;
#pragma unroll
    for (int x = 0; x < 2; ++x) {
      const std::uint32_t word[4] = {piece[i][x].x, piece[i][x].y, piece[i][x].z, piece[i][x].w};
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        // Word w of half x: step 2x + w / 2, slots 2c + 8 * (w % 2) and the next.
        const int column = (task / k_octets * 4 + 2 * x + (w >> 1)) * 2 + (w & 1);
        const std::uint32_t v = word[w] ^ sign;
        ptx::store_u32(to + column * (16 * k_n), k_f16 ? bf16x2_to_f16x2(v) : v);
      }
    }
  }
}

}  // namespace splitwave::cuda::sm90a
