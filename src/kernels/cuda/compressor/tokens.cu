// Many tokens a sequence (prefill, speculation): entries in parallel, then the states. Each entry's
// arithmetic is the decode step's, token by token, so the bits are those of as many steps.
#include "kernels/cuda/cache/preload.h"
#include "kernels/cuda/compressor/entry.cuh"

namespace splitwave::cuda {
namespace {

constexpr int k_ring = 8;

// The sequence that token belongs to: the last one whose offset is not past it.
__device__ __forceinline__ int sequence_of(const CompressCall& call, std::int64_t token) {
  int low = 0;
  int high = call.sequences;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (call.offsets[middle] <= token) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

template <int kDims>
__device__ __forceinline__ void pool_overlap(const CompressCall& call, std::int64_t token,
                                             std::int64_t first_token, std::int64_t position,
                                             const float* state, float (&pooled)[4]) {
  constexpr int channels = 2 * kDims;
  const std::int64_t oldest = position - (k_ring - 1);
  const int first = oldest < 0 ? k_compressor_overlap_ratio : 0;
  Float4 value[k_ring];
  Float4 score[k_ring];
#pragma unroll
  for (int j = 0; j < k_ring; ++j) {
    value[j] = score[j] = Float4{};
    if (j < first) continue;
    const int at = 4 * threadIdx.x + (j < k_compressor_overlap_ratio ? 0 : kDims);
    const std::int64_t from = token - (k_ring - 1) + j;
    if (from >= first_token) {
      value[j] = load4(call.kv + from * call.token_stride + at);
      score[j] = add4(load4(call.gate + from * call.token_stride + at),
                      load4(call.ape + (oldest + j) % k_compressor_overlap_ratio * channels + at));
    } else {
      const float* ring = state + (oldest + j) % k_ring * 2 * channels + at;
      value[j] = load4(ring);
      score[j] = load4(ring + channels);
    }
  }
  pool_four(value, score, first, pooled);
}

// Folds tokens [from, to) into online; position is that of token from.
template <int kDims>
__device__ __forceinline__ void fold_tokens(const CompressCall& call, std::int64_t from,
                                            std::int64_t to, std::int64_t position,
                                            Online4& online) {
  const int c = 4 * threadIdx.x;
#pragma unroll 4
  for (std::int64_t t = from; t < to; ++t, ++position) {
    const int phase = static_cast<int>(position % k_compressor_online_ratio);
    const Float4 value = load4(call.kv + t * call.token_stride + c);
    const Float4 score =
        add4(load4(call.gate + t * call.token_stride + c), load4(call.ape + phase * kDims + c));
    if (phase == 0) {
      online.begin(score, value);
    } else {
      online.step(score, value);
    }
  }
}

template <int kRatio, int kDims>
__global__ void __launch_bounds__(kDims / 4)
    compress_emit_kernel(const __grid_constant__ CompressParams p) {
  const std::int64_t token = blockIdx.x;
  const int sequence = sequence_of(p.call, token);
  if (token >= p.call.offsets[sequence + 1] || !is_live_sequence(p.call, sequence)) return;
  const std::int64_t first_token = p.call.offsets[sequence];
  const std::int64_t start = p.call.start[sequence];
  const std::int64_t position = start + (token - first_token);
  if (position % kRatio != kRatio - 1) return;
  const std::int64_t rotation = position - (kRatio - 1);
  if (!is_live_entry(p, token, rotation)) return;
  constexpr bool overlaps = kRatio == k_compressor_overlap_ratio;
  constexpr std::int64_t state_floats = overlaps ? 32 * kDims : 3 * kDims;
  const float* state = p.call.state + p.call.state_slot[sequence] * state_floats;
  float pooled[4];
  if constexpr (overlaps) {
    pool_overlap<kDims>(p.call, token, first_token, position, state, pooled);
  } else {
    Online4 online;
    const std::int64_t from = max(start, rotation);  // position of the first token to fold
    if (from > rotation) online.load(state + 4 * threadIdx.x, kDims);
    fold_tokens<kDims>(p.call, token - (position - from), token + 1, from, online);
    online.pool(pooled);
  }
  finish_and_store<kDims>(p, pooled, token, rotation);
}

template <int kRatio, int kDims>
__global__ void __launch_bounds__(kDims / 4)
    compress_state_kernel(const __grid_constant__ CompressParams p) {
  const int sequence = blockIdx.x;
  const CompressCall& call = p.call;
  const std::int64_t first_token = call.offsets[sequence];
  const std::int64_t last_token = call.offsets[sequence + 1] - 1;
  if (last_token < first_token || !is_live_sequence(call, sequence)) return;
  const std::int64_t start = call.start[sequence];
  const std::int64_t last = start + (last_token - first_token);  // position
  const int c = 4 * threadIdx.x;
  if constexpr (kRatio == k_compressor_overlap_ratio) {
    constexpr int channels = 2 * kDims;
    float* state = call.state + static_cast<std::int64_t>(call.state_slot[sequence]) * 32 * kDims;
    for (std::int64_t q = max(start, last - (k_ring - 1)); q <= last; ++q) {
      const std::int64_t from = last_token - (last - q);
      float* mine = state + q % k_ring * 2 * channels;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = half * kDims + c;
        store4(mine + at, load4(call.kv + from * call.token_stride + at));
        store4(mine + channels + at,
               add4(load4(call.gate + from * call.token_stride + at),
                    load4(call.ape + q % k_compressor_overlap_ratio * channels + at)));
      }
    }
  } else {
    float* state = call.state + static_cast<std::int64_t>(call.state_slot[sequence]) * 3 * kDims;
    const std::int64_t block = last - last % k_compressor_online_ratio;
    const std::int64_t from = max(start, block);
    Online4 online;
    if (from > block) online.load(state + c, kDims);
    fold_tokens<kDims>(call, last_token - (last - from), last_token + 1, from, online);
    online.store(state + c, kDims);
  }
}

constexpr int k_copy_threads = 256;

__global__ void __launch_bounds__(k_copy_threads)
    copy_state_kernel(const __grid_constant__ StateCopyCall p, std::int64_t floats) {
  const std::int32_t slot = p.slots[blockIdx.x];
  if (slot < 0 || slot >= p.state_slots) return;
  float4* pool = reinterpret_cast<float4*>(p.state + slot * floats);
  float4* packed = reinterpret_cast<float4*>(p.buffer + blockIdx.x * floats);
  const bool saves = p.direction == StateCopyCall::Direction::save;
  for (std::int64_t i = threadIdx.x; i < floats / 4; i += k_copy_threads) {
    if (saves) {
      packed[i] = pool[i];
    } else {
      pool[i] = packed[i];
    }
  }
}

template <int kRatio, int kDims>
cudaError_t launch_tokens(const CompressParams& params, cudaStream_t stream) {
  if (params.call.tokens > 0) {
    compress_emit_kernel<kRatio, kDims>
        <<<static_cast<unsigned>(params.call.tokens), kDims / 4, 0, stream>>>(params);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  }
  compress_state_kernel<kRatio, kDims>
      <<<static_cast<unsigned>(params.call.sequences), kDims / 4, 0, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace

cudaError_t prepare_compress_tokens() {
  return preload({reinterpret_cast<const void*>(compress_emit_kernel<4, 512>),
                  reinterpret_cast<const void*>(compress_emit_kernel<4, 128>),
                  reinterpret_cast<const void*>(compress_emit_kernel<128, 512>),
                  reinterpret_cast<const void*>(compress_emit_kernel<128, 128>),
                  reinterpret_cast<const void*>(compress_state_kernel<4, 512>),
                  reinterpret_cast<const void*>(compress_state_kernel<4, 128>),
                  reinterpret_cast<const void*>(compress_state_kernel<128, 512>),
                  reinterpret_cast<const void*>(compress_state_kernel<128, 128>),
                  reinterpret_cast<const void*>(copy_state_kernel)});
}

cudaError_t launch_compress_tokens(const CompressorSpec& spec, const CompressCall& call,
                                   cudaStream_t stream) {
  const CompressParams params{call, spec.target, spec.hadamard, spec.norm_eps};
  if (spec.ratio == k_compressor_overlap_ratio) {
    return spec.dims == 512 ? launch_tokens<4, 512>(params, stream)
                            : launch_tokens<4, 128>(params, stream);
  }
  return spec.dims == 512 ? launch_tokens<128, 512>(params, stream)
                          : launch_tokens<128, 128>(params, stream);
}

cudaError_t launch_copy_state(const CompressorSpec& spec, const StateCopyCall& call,
                              cudaStream_t stream) {
  copy_state_kernel<<<static_cast<unsigned>(call.count), k_copy_threads, 0, stream>>>(
      call, compressor_state_floats(spec.ratio, spec.dims));
  return cudaGetLastError();
}

}  // namespace splitwave::cuda
