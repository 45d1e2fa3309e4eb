// The end of a chunk in a cluster kernel: denominators by finish_head, then each warpgroup's own
// value dims, folded, stored or written. Owns no other arithmetic. Called by cluster_math.cuh.
#pragma once

#include "kernels/cuda/sm90a/cluster_config.h"
#include "kernels/cuda/sm90a/epilogue.cuh"

#if !defined(SPLITWAVE_SM90A_STAMP)
#define SPLITWAVE_SM90A_STAMP(group, id)
#endif

namespace splitwave::cuda::sm90a {

template <class V>
struct ClusterEpilogue {
  static constexpr auto k = V::shape;
  static constexpr int k_n = k.config.block_heads;
  static constexpr int k_tiles = k.tiles;

  const DecodeParams& p;
  std::uint32_t smem;
  int group, warp, rank;

  __device__ __forceinline__ int thread() const { return warp * 32 + lane_now(); }
  __device__ __forceinline__ bool keeps_a_head() const { return group == 0 && thread() < k_n; }

  // The chunk's result: folded with what the item has so far, then kept, stored or written.
  __device__ __forceinline__ void finish(const ChunkEnd& end, float (&o)[k_tiles][k_n / 2], float l,
                                         float l_rounded) const {
    if (keeps_a_head()) {
      finish_head<V>(p, smem, end, thread(), {ptx::load_f32(smem + k.m + thread() * 4), l},
                     l_rounded, rank == 0);
    }
    named_sync(k_bar_math, 256);  // weights and denominators are there
    SPLITWAVE_SM90A_STAMP(group, 3);
    if (end.writes_result() && !end.has_previous()) {
      each_pair(end, o, [&](int local, int dim, bool is_rope, float x, float y) {
        write_pair(end, local, dim, is_rope, x, y);
      });
      return;
    }
    const std::int64_t slot = end.partial_slot(p);
    each_pair(end, o, [&](int local, int dim, bool is_rope, float x, float y) {
      float* kept = p.partials.o + (slot * k_n + local) * k_value_dims + dim;
      const int step = is_rope ? 8 : 1;
      const float ratio = ptx::load_f32(smem + k.ratio + local * 4);
      x = __fmul_rn(x, ratio);
      y = __fmul_rn(y, ratio);
      if (end.has_previous()) {  // this thread's own stores
        const float a = ptx::load_f32(smem + k.sum + local * 4);
        const float b = ptx::load_f32(smem + k.sum + (k_n + local) * 4);
        x = merge_value(a, kept[0], b, x);
        y = merge_value(a, kept[step], b, y);
      }
      if (end.writes_result()) {
        write_pair(end, local, dim, is_rope, x, y);
      } else {
        kept[0] = x;
        kept[step] = y;
      }
    });
  }

  // f(head of the block, dim, is_rope, O at dim, O at the pair's other dim): d and d + 1, of a RoPE
  // tile d and d + 8.
  template <class F>
  __device__ __forceinline__ void each_pair(const ChunkEnd& end, float (&o)[k_tiles][k_n / 2],
                                            F f) const {
    const int lane = lane_now();
#pragma unroll
    for (int t = 0; t < k_tiles; ++t) {
      const int tile = k_tiles * (2 * rank + group) + t;
      const bool is_rope = k.config.format == KvFormat::v4 && t == k_tiles - 1 && tile == 7;
      const int dim = tile * 64 + warp * 16 + (is_rope ? 1 : 2) * (lane >> 2);
#pragma unroll
      for (int i = 0; i < k_n / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e)
          f(8 * i + 2 * (lane & 3) + e, dim, is_rope, o[t][4 * i + e], o[t][4 * i + 2 + e]);
      }
    }
  }

  __device__ __forceinline__ void write_pair(const ChunkEnd& end, int local, int dim, bool is_rope,
                                             float x, float y) const {
    const int head = end.item.head_block * k_n + local;
    if (head >= p.heads) return;
    const float inverse = ptx::load_f32(smem + k.inverse + local * 4);
    const std::uint32_t pair = pack_bf16(__fmul_rn(x, inverse), __fmul_rn(y, inverse));
    std::uint16_t* out = p.out + end.item.row * p.out_row_stride + head * p.out_head_stride + dim;
    if (is_rope) {
      out[0] = static_cast<std::uint16_t>(pair);
      out[8] = static_cast<std::uint16_t>(pair >> 16);
    } else {
      *reinterpret_cast<std::uint32_t*>(out) = pair;
    }
  }
};

}  // namespace splitwave::cuda::sm90a
