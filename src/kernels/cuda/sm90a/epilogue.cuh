// From accumulators to the caller's tensors, or to partial results. Owns the fold of a chunk into
// its item (by the one merge function of common/softmax.cuh), the denominator with its sink, the
// log-sum-exp, and the way out through shared memory, where Q and P lay.
#pragma once

#include "kernels/cuda/common/softmax.cuh"
#include "kernels/cuda/sm90a/dequant.cuh"
#include "kernels/cuda/sm90a/pv.cuh"
#include "kernels/cuda/sm90a/roles.cuh"

namespace splitwave::cuda::sm90a {

// Which chunk of an item is being finished, and where it goes.
struct ChunkEnd {
  Item item;
  int chunk;
  bool is_last;

  __device__ bool has_previous() const { return is_folded(item) && chunk > item.chunk_begin; }
  __device__ bool writes_result() const { return item.slot < 0 && is_last; }
  // Where this item's fold lives between chunks: its partial, or the CTA's scratch.
  __device__ int partial_slot(const DecodeParams& p) const {
    return item.slot < 0     ? p.partials.scratch_slot + static_cast<int>(blockIdx.x)
           : is_folded(item) ? item.slot
                             : item.slot + chunk - item.chunk_begin;
  }
};

// One thread a head. Folds the chunk's (m, l) into the item's, leaves the head's weights in shared
// memory (weights: [previous][chunk], [heads] each, used only when something is folded; ratio: of
// stored values; inverse: the ratio included where nothing is folded) and writes lse or the
// partial's (m, l). rounded_sum: of the chunk.
template <class V>
__device__ __forceinline__ void finish_head(const DecodeParams& p, std::uint32_t smem,
                                            const ChunkEnd& end, int local, const Partial& chunk,
                                            float rounded_sum, bool writes_scalars = true) {
  constexpr auto k = V::shape;
  constexpr int k_n = k.config.block_heads;
  const int head = end.item.head_block * k_n + local;
  const std::uint32_t kept = smem + k.folded + local * 8;
  // See softmax.cuh.
  const float ratio = rounded_sum > 0.0F ? __fdiv_rn(chunk.l, rounded_sum) : 1.0F;
  ptx::store_f32(smem + k.ratio + local * 4, ratio);
  Partial folded = chunk;
  if (end.has_previous()) {
    const float2 previous = ptx::load_f32x2(kept);
    const Merge m = merge({previous.x, previous.y}, chunk);
    folded = m.merged;
    ptx::store_f32(smem + k.sum + local * 4, m.weight_a);
    ptx::store_f32(smem + k.sum + (k_n + local) * 4, m.weight_b);
  }
  ptx::store_f32x2(kept, folded.m, folded.l);
  if (head >= p.heads) return;
  if (end.writes_result()) {
    const float sink = p.sink != nullptr ? __ldg(p.sink + head) : minus_infinity();
    const float inverse = inverse_denominator(folded, sink);
    ptx::store_f32(smem + k.inverse + local * 4,
                   end.has_previous() ? inverse : __fmul_rn(inverse, ratio));
    if (p.lse != nullptr && writes_scalars)
      p.lse[end.item.row * p.lse_row_stride + head] = natural_lse(folded);
  } else if (end.item.slot >= 0 && writes_scalars) {
    float* ml = p.partials.ml + (static_cast<std::int64_t>(end.partial_slot(p)) * k_n + local) * 2;
    *reinterpret_cast<float2*>(ml) = {folded.m, folded.l};
  }
}

// Accumulators (rows g and g + 8) of M-tile t are dims d and d + 1 of its group's part, of a RoPE
// tile d and d + 8: see value_dim_of_row and rope_value_dim_of_row.
template <class V, int Group>
__device__ __forceinline__ int first_dim(int t, int warp, int lane) {
  const bool is_rope = k_has_rope_tile<V, Group> && t == 3;
  return (Group * 4 + t) * 64 + warp * 16 + (is_rope ? 1 : 2) * (lane >> 2);
}

// bf16 results of the warpgroup's dims into the staging rows, one a head.
template <class V, int Group>
__device__ __forceinline__ void stage_result(std::uint32_t smem,
                                             const float (&o)[4][V::shape.config.block_heads / 2],
                                             int warp, int lane) {
  constexpr auto k = V::shape;
  const int c = lane & 3;
  const std::uint32_t to = smem + k.out + 2 * c * k_sm90a_out_row_bytes;
#pragma unroll
  for (int i = 0; i < k.config.block_heads / 8; ++i) {
    const float2 inverse = ptx::load_f32x2(smem + k.inverse + (8 * i + 2 * c) * 4);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float f = e == 0 ? inverse.x : inverse.y;
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        const std::uint32_t pair =
            pack_bf16(__fmul_rn(o[t][4 * i + e], f), __fmul_rn(o[t][4 * i + 2 + e], f));
        const std::uint32_t at =
            to + (8 * i + e) * k_sm90a_out_row_bytes + first_dim<V, Group>(t, warp, lane) * 2;
        if (k_has_rope_tile<V, Group> && t == 3) {
          store_u16(at, pair);
          store_u16(at + 16, pair >> 16);
        } else {
          ptx::store_u32(at, pair);
        }
      }
    }
  }
}

// One thread a head: its 1,024 bytes to the caller by the copy engine. The staging rows are free
// again after wait_for_stored_rows by the same threads.
template <class V>
__device__ __forceinline__ void store_staged_row(const DecodeParams& p, std::uint32_t smem,
                                                 const Item& item, int local) {
  const int head = item.head_block * V::shape.config.block_heads + local;
  if (head >= p.heads) return;
  bulk_store(p.out + item.row * p.out_row_stride + head * p.out_head_stride,
             smem + V::shape.out + local * k_sm90a_out_row_bytes, k_value_dims * 2);
}

// The chunk's O, relative to m, to a partial.
template <class V, int Group>
__device__ __forceinline__ void store_partial(const DecodeParams& p, std::uint32_t smem, int slot,
                                              bool is_folded_already,
                                              const float (&o)[4][V::shape.config.block_heads / 2],
                                              int warp, int lane) {
  constexpr int k_n = V::shape.config.block_heads;
  float* to =
      p.partials.o + (static_cast<std::int64_t>(slot) * k_n + 2 * (lane & 3)) * k_value_dims;
#pragma unroll
  for (int i = 0; i < k_n / 8; ++i) {
    const float2 ratio = ptx::load_f32x2(smem + V::shape.ratio + (8 * i + 2 * (lane & 3)) * 4);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float f = is_folded_already ? 1.0F : e == 0 ? ratio.x : ratio.y;
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        const float x = __fmul_rn(o[t][4 * i + e], f);
        const float y = __fmul_rn(o[t][4 * i + 2 + e], f);
        float* at = to + (8 * i + e) * k_value_dims + first_dim<V, Group>(t, warp, lane);
        if (k_has_rope_tile<V, Group> && t == 3) {
          at[0] = x;
          at[8] = y;
        } else {
          *reinterpret_cast<float2*>(at) = {x, y};
        }
      }
    }
  }
}

// o = what the item has so far, folded with the chunk's o. Each thread reads what store_partial of
// the chunk before wrote from the same thread. One octet of heads at a time: the loads of all would
// not fit beside O.
template <class V, int Group>
__device__ __forceinline__ void fold_previous(const DecodeParams& p, std::uint32_t smem, int slot,
                                              float (&o)[4][V::shape.config.block_heads / 2],
                                              int warp, int lane) {
  constexpr int k_n = V::shape.config.block_heads;
  const int c = lane & 3;
  const float* from = p.partials.o + (static_cast<std::int64_t>(slot) * k_n + 2 * c) * k_value_dims;
#pragma unroll
  for (int i = 0; i < k_n / 8; ++i) {
    float2 kept[2][4];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        const float* at = from + (8 * i + e) * k_value_dims + first_dim<V, Group>(t, warp, lane);
        if (k_has_rope_tile<V, Group> && t == 3) {
          kept[e][t] = {load_global(at), load_global(at + 8)};
        } else {
          kept[e][t] = load_global_x2(at);
        }
      }
    }
    const float2 ratio = ptx::load_f32x2(smem + V::shape.ratio + (8 * i + 2 * c) * 4);
    const float2 a = ptx::load_f32x2(smem + V::shape.sum + (8 * i + 2 * c) * 4);
    const float2 b = ptx::load_f32x2(smem + V::shape.sum + (k_n + 8 * i + 2 * c) * 4);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float f = e == 0 ? ratio.x : ratio.y;
      const float weight_a = e == 0 ? a.x : a.y;
      const float weight_b = e == 0 ? b.x : b.y;
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        float& x = o[t][4 * i + e];
        float& y = o[t][4 * i + 2 + e];
        x = merge_value(weight_a, kept[e][t].x, weight_b, __fmul_rn(x, f));
        y = merge_value(weight_a, kept[e][t].y, weight_b, __fmul_rn(y, f));
      }
    }
  }
}

}  // namespace splitwave::cuda::sm90a
