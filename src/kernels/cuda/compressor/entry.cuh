// From pooled channels to a stored entry, dims / 4 threads, four channels a thread. Owns the device
// form of finish_entry and store_entry (src/formats/ops_compressor.h), with the same bits.
#pragma once

#include "kernels/cuda/cache/rows.cuh"
#include "kernels/cuda/compressor/launch.h"

namespace splitwave::cuda {

struct Float4 {
  float x[4];
};
// Plain loads: a thread may read what it has just written.
__device__ __forceinline__ Float4 load4(const float* p) {
  const float4 v = *reinterpret_cast<const float4*>(p);
  return {{v.x, v.y, v.z, v.w}};
}
__device__ __forceinline__ void store4(float* p, const Float4& v) {
  *reinterpret_cast<float4*>(p) = make_float4(v.x[0], v.x[1], v.x[2], v.x[3]);
}
__device__ __forceinline__ Float4 add4(const Float4& a, const Float4& b) {
  Float4 out;
#pragma unroll
  for (int i = 0; i < 4; ++i) out.x[i] = op_add(a.x[i], b.x[i]);
  return out;
}

// Sum over the CTA's kDims channels: butterflies in a warp, then the warps in ascending order.
template <int kDims>
__device__ __forceinline__ float entry_square_sum(const float (&x)[4]) {
  float sum = square_sum4(x[0], x[1], x[2], x[3]);
#pragma unroll
  for (int span = 16; span > 0; span /= 2) {
    sum = op_add(sum, __shfl_xor_sync(k_row_lanes, sum, span));
  }
  if constexpr (kDims == 128) return sum;
  __shared__ float warp_sum[4];
  if (threadIdx.x % 32 == 0) warp_sum[threadIdx.x / 32] = sum;
  __syncthreads();  // one use a launch: no second barrier is needed
  return op_add(op_add(op_add(warp_sum[0], warp_sum[1]), warp_sum[2]), warp_sum[3]);
}

// Whether the entry of this boundary token has a home. The same for all threads of the CTA.
__device__ __forceinline__ bool is_live_entry(const CompressParams& p, std::int64_t token,
                                              std::int64_t rotation) {
  if (p.call.table.cos_sin != nullptr && rotation >= p.call.table.positions) return false;
  return p.target == CompressorTarget::rows || is_live_slot(p.call.cache, p.call.slots[token]);
}

template <int kDims>
__device__ __forceinline__ void finish_and_store(const CompressParams& p, const float (&pooled)[4],
                                                 std::int64_t token, std::int64_t rotation) {
  const int t = threadIdx.x;
  float x[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) x[i] = __uint_as_float(op_bf16(pooled[i]) << 16);
  const float factor =
      rms_factor(entry_square_sum<kDims>(x), static_cast<float>(kDims), p.norm_eps);
  const Dims4 norm = load_dims4(p.call.norm + 4 * t);
  Dims4 dims;
#pragma unroll
  for (int i = 0; i < 4; ++i) dims.code[i] = op_bf16(op_mul(norm.value(i), op_mul(x[i], factor)));
  constexpr int first_rope = (kDims - k_rope_dims) / 4;
  if (p.call.table.cos_sin != nullptr && t >= first_rope) {
    rotate_rope4(dims, p.call.table.cos_sin + rotation * k_rope_dims, (t - first_rope) * 2);
  }
  if constexpr (kDims == 512) {
    if (p.target == CompressorTarget::v4_cache) {
      store_v4_row(dims, t,
                   row_place(p.call.cache, p.call.slots[token], k_v4_data_bytes, k_v4_scale_bytes));
      return;
    }
  } else {
    if (p.hadamard) rotate_hadamard4(dims, t);
    if (p.target == CompressorTarget::indexer_fp8) {
      const RowPlace at = row_place(p.call.cache, p.call.slots[token], 128, 4);
      store_indexer_row<IndexerFormat::fp8>(dims, t, true, at.values, at.scales);
      return;
    }
    if (p.target == CompressorTarget::indexer_fp4) {
      const RowPlace at = row_place(p.call.cache, p.call.slots[token], 64, 4);
      store_indexer_row<IndexerFormat::fp4>(dims, t, true, at.values, at.scales);
      return;
    }
    if (p.target == CompressorTarget::indexer_bf16) {
      const RowPlace at = row_place(p.call.cache, p.call.slots[token], 256, 0);
      store_indexer_row<IndexerFormat::bf16>(dims, t, true, at.values, at.scales);
      return;
    }
  }
  reinterpret_cast<uint2*>(p.call.rows_out + token * p.call.rows_out_stride)[t] = dims.packed();
}

// Token scores and values of this thread's channels, pooled by the rule of the overlapped form.
__device__ __forceinline__ void pool_four(const Float4 (&value)[8], const Float4 (&score)[8],
                                          int first, float (&pooled)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float v[8];
    float s[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      v[j] = value[j].x[i];
      s[j] = score[j].x[i];
    }
    pooled[i] = pool_eight(s, v, first);
  }
}

// The running state of four channels of the online form.
struct Online4 {
  Float4 m, l, a;

  __device__ __forceinline__ void begin(const Float4& score, const Float4& value) {
    m = score;
    l = {{1.0F, 1.0F, 1.0F, 1.0F}};
    a = value;
  }
  __device__ __forceinline__ void step(const Float4& score, const Float4& value) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      online_softmax_step(score.x[i], value.x[i], m.x[i], l.x[i], a.x[i]);
    }
  }
  __device__ __forceinline__ void load(const float* state, int dims) {
    m = load4(state);
    l = load4(state + dims);
    a = load4(state + 2 * dims);
  }
  __device__ __forceinline__ void store(float* state, int dims) const {
    store4(state, m);
    store4(state + dims, l);
    store4(state + 2 * dims, a);
  }
  __device__ __forceinline__ void pool(float (&pooled)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) pooled[i] = op_div(a.x[i], l.x[i]);
  }
};

__device__ __forceinline__ bool is_live_sequence(const CompressCall& call, std::int64_t sequence) {
  const std::int32_t slot = call.state_slot[sequence];
  return call.start[sequence] >= 0 && slot >= 0 && slot < call.state_slots;
}

}  // namespace splitwave::cuda
