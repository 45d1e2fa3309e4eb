// One tile of the tournament: the exact k best of up to threads * items elements, in index order.
// Owns the radix select (11, 11 and 10 bits of the order-preserving key, counted in shared memory:
// counts do not depend on the order of their atomics) and the ordered compaction.
//
// Element order: warp w owns elements [w * 32 * items, ..) of the tile, as `items / 4` groups of
// 128; in a group lane l holds four neighbours. So a prefix over warps, groups, lanes and the four
// is a prefix over indices: no sort, no atomic slot.
#pragma once

#include "formats/ops_topk.h"
#include "kernels/cuda/topk/launch.h"

namespace splitwave::cuda {

inline constexpr unsigned k_topk_lanes = 0xFFFFFFFFU;
inline constexpr int k_topk_bins = 2048;

template <int kThreads>
struct TopKShared {
  std::uint32_t histogram[k_topk_bins];
  std::uint32_t warp_sum[kThreads / 32];
  std::uint32_t bin;
  std::uint32_t rank;
  std::uint32_t total;
};

__device__ __forceinline__ std::uint32_t warp_inclusive_sum(std::uint32_t value, int lane) {
#pragma unroll
  for (int span = 1; span < 32; span *= 2) {
    const std::uint32_t other = __shfl_up_sync(k_topk_lanes, value, span);
    if (lane >= span) value += other;
  }
  return value;
}

// Exclusive prefix of value over the CTA's threads; total receives the sum. Two barriers: one after
// the warps' sums are written, one before anybody may write them again.
template <int kThreads>
__device__ __forceinline__ std::uint32_t block_exclusive_sum(TopKShared<kThreads>& shared,
                                                             std::uint32_t value,
                                                             std::uint32_t& total) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const std::uint32_t inclusive = warp_inclusive_sum(value, lane);
  if (lane == 31) shared.warp_sum[warp] = inclusive;
  __syncthreads();
  std::uint32_t before = 0;
  total = 0;
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) {
    const std::uint32_t sum = shared.warp_sum[w];
    if (w < warp) before += sum;
    total += sum;
  }
  __syncthreads();
  return before + inclusive - value;
}

// The bin that holds the wanted-th largest counted element, and the rank wanted inside it. Thread t
// owns bins from the top: k_topk_bins - 1 - t * per .. . All threads return the same.
template <int kThreads>
__device__ __forceinline__ void find_bin(TopKShared<kThreads>& shared, std::uint32_t wanted,
                                         std::uint32_t& bin, std::uint32_t& rank,
                                         std::uint32_t& total) {
  constexpr int per_thread = k_topk_bins / kThreads;
  const int first = k_topk_bins - 1 - static_cast<int>(threadIdx.x) * per_thread;
  std::uint32_t count[per_thread];
  std::uint32_t sum = 0;
#pragma unroll
  for (int i = 0; i < per_thread; ++i) {
    count[i] = shared.histogram[first - i];
    sum += count[i];
  }
  const std::uint32_t before = block_exclusive_sum<kThreads>(shared, sum, total);
  if (before < wanted && wanted <= before + sum) {  // one thread at most
    std::uint32_t left = wanted - before;
    int at = 0;
#pragma unroll
    for (int i = 0; i < per_thread - 1; ++i) {
      if (at == i && left > count[i]) {
        left -= count[i];
        at = i + 1;
      }
    }
    shared.bin = static_cast<std::uint32_t>(first - at);
    shared.rank = left;
  }
  __syncthreads();  // bin and rank are there; the histogram has been read
  bin = shared.bin;
  rank = shared.rank;
}

template <int kThreads>
__device__ __forceinline__ void clear_histogram(TopKShared<kThreads>& shared) {
#pragma unroll
  for (int i = threadIdx.x; i < k_topk_bins; i += kThreads) shared.histogram[i] = 0;
  __syncthreads();
}

// What is selected: every key above threshold, and the first `equals` keys equal to it by index.
struct TopKThreshold {
  std::uint32_t key = 0;
  std::uint32_t equals = 0;
};

// A key that at least k of the tile's keys reach, or 1. The k-th largest of the maxima of fours is
// one: k fours hold a key as large. It keeps little more than the k best (6.9 % against 6.3 % of
// normal values at 512 of 8,192), for a quarter of the atomics of counting every key; the first
// digit will do.
template <int kThreads, int kItems>
__device__ __forceinline__ std::uint32_t find_floor(TopKShared<kThreads>& shared,
                                                    const std::uint32_t (&key)[kItems], int k) {
  clear_histogram<kThreads>(shared);
#pragma unroll
  for (int i = 0; i < kItems; i += 4) {
    const std::uint32_t top = max(max(key[i], key[i + 1]), max(key[i + 2], key[i + 3]));
    if (top != 0) atomicAdd(&shared.histogram[top >> 21], 1U);
  }
  __syncthreads();
  std::uint32_t bin;
  std::uint32_t rank;
  std::uint32_t fours;
  find_bin<kThreads>(shared, static_cast<std::uint32_t>(k), bin, rank, fours);
  return fours < static_cast<std::uint32_t>(k) || bin == 0 ? 1U : bin << 21;
}

template <int kThreads, int kItems>
__device__ __forceinline__ TopKThreshold find_threshold(TopKShared<kThreads>& shared,
                                                        const std::uint32_t (&key)[kItems], int k) {
  const std::uint32_t floor = find_floor<kThreads, kItems>(shared, key, k);
  clear_histogram<kThreads>(shared);
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if (key[i] >= floor) atomicAdd(&shared.histogram[key[i] >> 21], 1U);
  }
  __syncthreads();
  std::uint32_t bin;
  std::uint32_t rank;
  std::uint32_t reached;
  find_bin<kThreads>(shared, static_cast<std::uint32_t>(k), bin, rank, reached);
  if (reached <= static_cast<std::uint32_t>(k)) return {floor - 1, 0};  // all that reach the floor
  std::uint32_t prefix = bin;
  std::uint32_t unused;
  clear_histogram<kThreads>(shared);
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if ((key[i] >> 21) == prefix && key[i] != 0) {
      atomicAdd(&shared.histogram[(key[i] >> 10) & 0x7FFU], 1U);
    }
  }
  __syncthreads();
  find_bin<kThreads>(shared, rank, bin, rank, unused);
  prefix = prefix << 11 | bin;
  clear_histogram<kThreads>(shared);
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if ((key[i] >> 10) == prefix) atomicAdd(&shared.histogram[key[i] & 0x3FFU], 1U);
  }
  __syncthreads();
  find_bin<kThreads>(shared, rank, bin, rank, unused);
  return {prefix << 10 | bin, rank};
}

// Calls emit(position, element, key) for each selected element; position counts them in index
// order. Returns how many there are. Counts above and equal travel as one word: 16 bits each hold a
// tile.
template <int kThreads, int kItems, class Emit>
__device__ __forceinline__ int compact(TopKShared<kThreads>& shared,
                                       const std::uint32_t (&key)[kItems],
                                       const TopKThreshold& threshold, Emit&& emit) {
  static_assert(kThreads * kItems <= 0xFFFF, "counts are 16 bits");
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  std::uint32_t mine = 0;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    mine += key[i] > threshold.key ? 1U : 0U;
    mine += key[i] == threshold.key && key[i] != 0 ? 0x10000U : 0U;
  }
  const std::uint32_t warp_total = __reduce_add_sync(k_topk_lanes, mine);
  std::uint32_t total;
  // Only lane 31's value counts: the prefix over threads is then the prefix over warps.
  const std::uint32_t exclusive =
      block_exclusive_sum<kThreads>(shared, lane == 31 ? warp_total : 0U, total);
  std::uint32_t base = __shfl_sync(k_topk_lanes, exclusive, 0);
#pragma unroll
  for (int group = 0; group < kItems / 4; ++group) {
    std::uint32_t four = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t x = key[group * 4 + i];
      four += x > threshold.key ? 1U : 0U;
      four += x == threshold.key && x != 0 ? 0x10000U : 0U;
    }
    if (!__any_sync(k_topk_lanes, four != 0)) continue;
    const std::uint32_t inclusive = warp_inclusive_sum(four, lane);
    std::uint32_t before = base + inclusive - four;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t x = key[group * 4 + i];
      const std::uint32_t above = before & 0xFFFFU;
      const std::uint32_t equal = before >> 16;
      const bool is_above = x > threshold.key;
      const bool is_equal = x == threshold.key && x != 0;
      if (is_above || (is_equal && equal < threshold.equals)) {
        emit(static_cast<int>(above + min(equal, threshold.equals)),
             warp * 32 * kItems + group * 128 + lane * 4 + i, x);
      }
      before += (is_above ? 1U : 0U) + (is_equal ? 0x10000U : 0U);
    }
    base += __shfl_sync(k_topk_lanes, inclusive, 31);
  }
  return static_cast<int>((total & 0xFFFFU) + min(total >> 16, threshold.equals));
}

__device__ __forceinline__ std::int32_t slot_of(const TopKParams& p, int row, int index) {
  const std::int64_t page = p.kv_pages[row * p.kv_pages_row_stride + index / p.kv_page_size];
  if (page < 0 || page >= p.kv_pool_pages) return -1;
  const std::int64_t slot = page * p.kv_page_size + index % p.kv_page_size;
  return slot > 0x7FFFFFFF ? -1 : static_cast<std::int32_t>(slot);
}

// Loads this thread's keys of tile elements [first, first + tile): 0 past size. Level 0 reads
// logits, 16 bytes at a time where the row's address allows; later levels the survivors' keys.
template <int kThreads, int kItems>
__device__ __forceinline__ void load_keys(const TopKParams& p, int row, std::int64_t first,
                                          std::int64_t size, std::uint32_t (&key)[kItems]) {
  const std::int64_t mine = first + threadIdx.x / 32 * (32 * kItems) + threadIdx.x % 32 * 4;
  if (p.level > 0) {
    const uint2* in = p.input + row * p.input_stride;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const std::int64_t at = mine + i / 4 * 128 + i % 4;
      key[i] = at < size ? in[at].x : 0U;
    }
    return;
  }
  const float* in = p.logits + row * p.logits_row_stride;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(in) % 16 == 0;
  if (is_aligned && first + kThreads * kItems <= size) {
    // A whole tile: all loads first, so that they are in flight together.
    uint4 raw[kItems / 4];
#pragma unroll
    for (int group = 0; group < kItems / 4; ++group) {
      raw[group] = __ldg(reinterpret_cast<const uint4*>(in + mine + group * 128));
    }
#pragma unroll
    for (int group = 0; group < kItems / 4; ++group) {
      key[group * 4 + 0] = topk_key(raw[group].x);
      key[group * 4 + 1] = topk_key(raw[group].y);
      key[group * 4 + 2] = topk_key(raw[group].z);
      key[group * 4 + 3] = topk_key(raw[group].w);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const std::int64_t at = mine + i / 4 * 128 + i % 4;
    key[i] = at < size ? topk_key(__float_as_uint(__ldg(in + at))) : 0U;
  }
}

// CTAs an SM that the register budget is made for. sm_120 gives the small tile one: 64 registers
// would spill there.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
inline constexpr int k_topk_resident_threads = 512;
#else
inline constexpr int k_topk_resident_threads = 1024;
#endif

// grid (tiles of length_max at this level, rows).
template <int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads, k_topk_resident_threads >= kThreads
                                                ? k_topk_resident_threads / kThreads
                                                : 1)
    topk_tile_kernel(const __grid_constant__ TopKParams p) {
  __shared__ TopKShared<kThreads> shared;
  constexpr int tile = kThreads * kItems;
  const int row = blockIdx.y;
  const int raw_length = p.lengths[row];
  const std::int64_t length = raw_length < 0                     ? 0
                              : raw_length > p.levels.length_max ? p.levels.length_max
                                                                 : raw_length;
  const std::int64_t size = topk_level_size(p.levels, p.level, length);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * tile;
  const bool is_empty_row = p.level == 0 && size == 0 && blockIdx.x == 0;
  if (first >= size && !is_empty_row) return;
  const bool is_last = size <= tile;
  std::uint32_t key[kItems];
  load_keys<kThreads, kItems>(p, row, first, size, key);
  const TopKThreshold threshold = find_threshold<kThreads, kItems>(shared, key, p.levels.k);
  const uint2* in = p.input + row * p.input_stride;
  const auto index_of = [&](int element) {
    return p.level == 0 ? static_cast<std::int32_t>(first + element)
                        : static_cast<std::int32_t>(in[first + element].y);
  };
  if (!is_last) {
    uint2* out =
        p.output + row * p.output_stride + static_cast<std::int64_t>(blockIdx.x) * p.levels.k;
    const int kept = compact<kThreads, kItems>(
        shared, key, threshold, [&](int position, int element, std::uint32_t x) {
          out[position] = {x, static_cast<std::uint32_t>(index_of(element))};
        });
    for (int i = kept + static_cast<int>(threadIdx.x); i < p.levels.k; i += kThreads)
      out[i] = {0U, 0U};
    return;
  }
  const auto write = [&](int position, std::int32_t index, std::int32_t slot) {
    if (p.indices != nullptr) p.indices[row * p.indices_row_stride + position] = index;
    if (p.slots != nullptr) p.slots[row * p.slots_row_stride + position] = slot;
  };
  const int kept = compact<kThreads, kItems>(
      shared, key, threshold, [&](int position, int element, std::uint32_t) {
        const std::int32_t index = index_of(element);
        write(position, index, p.slots != nullptr ? slot_of(p, row, index) : -1);
      });
  for (int i = kept + static_cast<int>(threadIdx.x); i < p.levels.k; i += kThreads)
    write(i, -1, -1);
  if (threadIdx.x == 0 && p.counts != nullptr) p.counts[row] = kept;
}

template <int kThreads, int kItems>
cudaError_t launch_topk_tiles(const TopKParams& p, cudaStream_t stream) {
  const std::int64_t size = topk_level_size(p.levels, p.level, p.levels.length_max);
  const std::int64_t tiles = (size + kThreads * kItems - 1) / (kThreads * kItems);
  // gridDim.y ends at 65,535: more rows go in slices.
  constexpr int slice = 65535;
  for (int row = 0; row < p.rows; row += slice) {
    TopKParams part = p;
    const int rows = p.rows - row < slice ? p.rows - row : slice;
    part.logits += row * p.logits_row_stride;
    part.lengths += row;
    if (part.input != nullptr) part.input += row * p.input_stride;
    part.output += row * p.output_stride;
    if (part.indices != nullptr) part.indices += row * p.indices_row_stride;
    if (part.counts != nullptr) part.counts += row;
    if (part.slots != nullptr) part.slots += row * p.slots_row_stride;
    if (part.kv_pages != nullptr) part.kv_pages += row * p.kv_pages_row_stride;
    topk_tile_kernel<kThreads, kItems>
        <<<dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(rows)), kThreads, 0, stream>>>(
            part);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace splitwave::cuda
