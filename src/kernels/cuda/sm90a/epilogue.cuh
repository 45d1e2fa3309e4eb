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
// memory (weights: [previous][chunk], [heads] each, used only when something is folded) and writes
// lse or the partial's (m, l).
template <class V>
__device__ __forceinline__ void finish_head(const DecodeParams& p, std::uint32_t smem,
                                            const ChunkEnd& end, int local, const Partial& chunk) {
  constexpr auto k = V::shape;
  constexpr int k_n = k.config.block_heads;
  const int head = end.item.head_block * k_n + local;
  const std::uint32_t kept = smem + k.folded + local * 8;
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
    ptx::store_f32(smem + k.inverse + local * 4, inverse_denominator(folded, sink));
    if (p.lse != nullptr) p.lse[end.item.row * p.lse_row_stride + head] = natural_lse(folded);
  } else if (end.item.slot >= 0) {
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

// The chunk's O as it is, to a partial.
template <class V, int Group>
__device__ __forceinline__ void store_partial(const DecodeParams& p, int slot,
                                              const float (&o)[4][V::shape.config.block_heads / 2],
                                              int warp, int lane) {
  constexpr int k_n = V::shape.config.block_heads;
  float* to =
      p.partials.o + (static_cast<std::int64_t>(slot) * k_n + 2 * (lane & 3)) * k_value_dims;
#pragma unroll
  for (int i = 0; i < k_n / 8; ++i) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        float* at = to + (8 * i + e) * k_value_dims + first_dim<V, Group>(t, warp, lane);
        if (k_has_rope_tile<V, Group> && t == 3) {
          at[0] = o[t][4 * i + e];
          at[8] = o[t][4 * i + 2 + e];
        } else {
          *reinterpret_cast<float2*>(at) = {o[t][4 * i + e], o[t][4 * i + 2 + e]};
        }
      }
    }
  }
}

// Merges the chunk, stored in partial `chunk_slot`, into the item's fold, and writes the result out
// when it is the last. thread: of both math warpgroups. O is out of the registers here: next to it
// this loop would spill.
template <class V>
__device__ __forceinline__ void fold_stored_chunk(const DecodeParams& p, std::uint32_t smem,
                                                  const ChunkEnd& end, int chunk_slot, int thread) {
  constexpr auto k = V::shape;
  constexpr int k_n = k.config.block_heads;
  constexpr int k_quads = k_value_dims / 4;
  const std::int64_t fold = static_cast<std::int64_t>(end.partial_slot(p)) * k_n * k_value_dims;
  const std::int64_t added = static_cast<std::int64_t>(chunk_slot) * k_n * k_value_dims;
#pragma unroll 1
  for (int at = thread; at < k_n * k_quads; at += k_sm90a_math_warps * 32) {
    const int local = at / k_quads;
    const int dim = at % k_quads * 4;
    const float4 x = *reinterpret_cast<const float4*>(p.partials.o + fold + 4 * at);
    const float4 y = *reinterpret_cast<const float4*>(p.partials.o + added + 4 * at);
    const float a = ptx::load_f32(smem + k.sum + local * 4);
    const float b = ptx::load_f32(smem + k.sum + (k_n + local) * 4);
    const float4 v{merge_value(a, x.x, b, y.x), merge_value(a, x.y, b, y.y),
                   merge_value(a, x.z, b, y.z), merge_value(a, x.w, b, y.w)};
    const int head = end.item.head_block * k_n + local;
    if (!end.writes_result()) {
      *reinterpret_cast<float4*>(p.partials.o + fold + 4 * at) = v;
    } else if (head < p.heads) {
      const float f = ptx::load_f32(smem + k.inverse + local * 4);
      const uint2 packed{pack_bf16(__fmul_rn(v.x, f), __fmul_rn(v.y, f)),
                         pack_bf16(__fmul_rn(v.z, f), __fmul_rn(v.w, f))};
      *reinterpret_cast<uint2*>(p.out + end.item.row * p.out_row_stride + head * p.out_head_stride +
                                dim) = packed;
    }
  }
}

}  // namespace splitwave::cuda::sm90a
