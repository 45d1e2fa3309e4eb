// The decode step: one token of each sequence, one CTA a sequence. A thread reads and writes its
// own four channels (and, with overlap, the same four of the second half) and nobody else's: no
// barrier stands between the state's update and its use.
#include "kernels/cuda/cache/preload.h"
#include "kernels/cuda/compressor/entry.cuh"

namespace splitwave::cuda {
namespace {

constexpr int k_ring = 8;

template <int kDims>
__device__ __forceinline__ bool step_overlap(const CompressCall& call, std::int64_t token,
                                             std::int64_t position, float* state,
                                             float (&pooled)[4]) {
  constexpr int channels = 2 * kDims;
  const int c = 4 * threadIdx.x;
  const int phase = static_cast<int>(position % k_compressor_overlap_ratio);
  float* mine = state + position % k_ring * 2 * channels;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int at = half * kDims + c;
    store4(mine + at, load4(call.kv + token * call.token_stride + at));
    store4(mine + channels + at, add4(load4(call.gate + token * call.token_stride + at),
                                      load4(call.ape + phase * channels + at)));
  }
  if (phase != k_compressor_overlap_ratio - 1) return false;
  const std::int64_t oldest = position - (k_ring - 1);
  const int first = oldest < 0 ? k_compressor_overlap_ratio : 0;
  Float4 value[k_ring];
  Float4 score[k_ring];
#pragma unroll
  for (int j = 0; j < k_ring; ++j) {
    value[j] = score[j] = Float4{};
    if (j < first) continue;  // entry 0 has no previous block: whatever lies there is not read
    const float* from = state + (oldest + j) % k_ring * 2 * channels + c +
                        (j < k_compressor_overlap_ratio ? 0 : kDims);
    value[j] = load4(from);
    score[j] = load4(from + channels);
  }
  pool_four(value, score, first, pooled);
  return true;
}

template <int kDims>
__device__ __forceinline__ bool step_online(const CompressCall& call, std::int64_t token,
                                            std::int64_t position, float* state,
                                            float (&pooled)[4]) {
  const int c = 4 * threadIdx.x;
  const int phase = static_cast<int>(position % k_compressor_online_ratio);
  const Float4 value = load4(call.kv + token * call.token_stride + c);
  const Float4 score =
      add4(load4(call.gate + token * call.token_stride + c), load4(call.ape + phase * kDims + c));
  Online4 online;
  if (phase == 0) {
    online.begin(score, value);
  } else {
    online.load(state + c, kDims);
    online.step(score, value);
  }
  online.store(state + c, kDims);
  if (phase != k_compressor_online_ratio - 1) return false;
  online.pool(pooled);
  return true;
}

template <int kRatio, int kDims>
__global__ void __launch_bounds__(kDims / 4)
    compress_step_kernel(const __grid_constant__ CompressParams p) {
  const std::int64_t sequence = blockIdx.x;
  if (!is_live_sequence(p.call, sequence)) return;
  const std::int64_t position = p.call.start[sequence];
  constexpr bool overlaps = kRatio == k_compressor_overlap_ratio;
  constexpr std::int64_t state_floats = overlaps ? 32 * kDims : 3 * kDims;
  float* state = p.call.state + p.call.state_slot[sequence] * state_floats;
  float pooled[4];
  bool emits;
  if constexpr (overlaps) {
    emits = step_overlap<kDims>(p.call, sequence, position, state, pooled);
  } else {
    emits = step_online<kDims>(p.call, sequence, position, state, pooled);
  }
  const std::int64_t rotation = position - (kRatio - 1);
  if (!emits || !is_live_entry(p, sequence, rotation)) return;
  finish_and_store<kDims>(p, pooled, sequence, rotation);
}

}  // namespace

cudaError_t prepare_compress_step() {
  return preload({reinterpret_cast<const void*>(compress_step_kernel<4, 512>),
                  reinterpret_cast<const void*>(compress_step_kernel<4, 128>),
                  reinterpret_cast<const void*>(compress_step_kernel<128, 512>),
                  reinterpret_cast<const void*>(compress_step_kernel<128, 128>)});
}

cudaError_t launch_compress_step(const CompressorSpec& spec, const CompressCall& call,
                                 cudaStream_t stream) {
  const CompressParams params{call, spec.target, spec.hadamard, spec.norm_eps};
  const bool is_wide = spec.dims == 512;
  const auto kernel =
      spec.ratio == k_compressor_overlap_ratio
          ? (is_wide ? compress_step_kernel<4, 512> : compress_step_kernel<4, 128>)
          : (is_wide ? compress_step_kernel<128, 512> : compress_step_kernel<128, 128>);
  kernel<<<static_cast<unsigned>(call.sequences), spec.dims / 4, 0, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace splitwave::cuda
