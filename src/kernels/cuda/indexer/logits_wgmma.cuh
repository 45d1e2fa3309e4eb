// The Hopper form of the logits kernel: wgmma, fp8 keys and query. Owns the pipeline of one
// warpgroup.
//
// As in logits.cuh the tiles of all rows are one list, here of 64 keys, and each of the CTA's four
// warpgroups takes an equal part; nothing is shared between them. A tile's values and scales are
// two bulk copies onto an mbarrier. The keys are the A operand, converted in registers; the row's
// query lies in shared memory, so four warpgroups fit an SM and one's conversion and head sum hide
// behind another's wgmma. The k order, the head order and the quad sum are those of logits.cuh.
#pragma once

#include "kernels/cuda/indexer/logits.cuh"
#include "kernels/cuda/indexer/wgmma.cuh"

namespace splitwave::cuda {

inline constexpr int k_group_threads = 128;
inline constexpr int k_groups = 4;  // warpgroups of a CTA
inline constexpr int k_group_stages = 4;
inline constexpr int k_group_tile_keys = 64;
inline constexpr int k_group_value_bytes = k_group_tile_keys * 128;
// [0, 8192) values, [8192, 8448) fp32 scales: a whole page of 64 keys as it is stored.
inline constexpr int k_group_stage_bytes = k_group_value_bytes + k_group_tile_keys * 4;

template <int kHeadTiles>
inline constexpr int k_group_query_bytes = kHeadTiles * 8 * k_indexer_dims * 2;
template <int kHeadTiles>
inline constexpr int k_wgmma_shared_bytes = k_groups*(k_group_query_bytes<kHeadTiles> +
                                                      k_group_stages * (k_group_stage_bytes + 8));
static_assert(k_wgmma_shared_bytes<8> <= 227 * 1024);

// The row's query into its group's B operand: step s, k half kk: [head / 8][head % 8][16 bytes].
template <int kHeadTiles>
__device__ __forceinline__ void store_query(const LogitsParams& p, int row, std::uint32_t query,
                                            int thread) {
  constexpr int half_bytes = kHeadTiles * 128;
  for (int item = thread; item < kHeadTiles * 8 * 4; item += k_group_threads) {
    const int head = item / 4;
    const int c = item % 4;
    std::uint32_t b[k_logit_steps][2];
    load_head<IndexerFormat::fp8, IndexerQuery::native>(
        p.q + row * p.q_row_stride_bytes + (head < p.heads ? head : 0) * 128, nullptr, c, b);
    const std::uint32_t place = query + head / 8 * 128 + head % 8 * 16 + c * 4;
#pragma unroll
    for (int step = 0; step < k_logit_steps; ++step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        ptx::store_u32(place + (2 * step + half) * half_bytes, head < p.heads ? b[step][half] : 0U);
      }
    }
  }
}

// Starts the copy of the cursor's tile. All lanes of the group's first warp call it.
__device__ __forceinline__ void issue_page(const LogitsParams& p,
                                           PageWindow<k_group_tile_keys>& window,
                                           const TileCursor& at, std::uint32_t stage,
                                           std::uint32_t barrier, int lane) {
  window.follow(p, at, lane);
  const int page = __shfl_sync(k_all_lanes, window.page, at.tile - window.first);
  const int offset = __shfl_sync(k_all_lanes, window.offset, at.tile - window.first);
  if (page >= 0 && page < p.pages) {
    if (lane != 0) return;
    const std::uint8_t* base = p.keys + page * p.page_stride_bytes;
    hopper::arrive_expecting(barrier, k_group_stage_bytes);
    hopper::copy_bulk(stage, base + static_cast<std::int64_t>(offset) * 128, k_group_value_bytes,
                      barrier);
    hopper::copy_bulk(stage + k_group_value_bytes,
                      base + static_cast<std::int64_t>(p.page_size) * 128 + offset * 4,
                      k_group_tile_keys * 4, barrier);
    return;
  }
  // An absent page: NaN scales; whatever the values are, the logits are NaN.
  ptx::store_u32(stage + k_group_value_bytes + lane * 8, k_nan_bits);
  ptx::store_u32(stage + k_group_value_bytes + lane * 8 + 4, k_nan_bits);
  hopper::fence_async_proxy();  // a later copy into this stage comes after these stores
  __syncwarp();
  if (lane == 0) ptx::barrier_arrive(barrier);
}

template <int kHeadTiles>
__global__ void __launch_bounds__(k_groups* k_group_threads, 1)
    indexer_logits_wgmma_kernel(const __grid_constant__ LogitsParams p) {
  extern __shared__ __align__(16) std::uint8_t shared[];
  const int lane = threadIdx.x % 32;
  const int thread = threadIdx.x % k_group_threads;
  const int warp = thread / 32;  // of the group: keys 16 warp ..
  const int group = threadIdx.x / k_group_threads;
  const int g = lane / 4;
  const int c = lane % 4;
  constexpr int query_bytes = k_group_query_bytes<kHeadTiles>;
  const std::uint32_t base = ptx::shared_address(shared);
  const std::uint32_t query = base + group * query_bytes;
  const std::uint32_t ring =
      base + k_groups * query_bytes + group * k_group_stages * k_group_stage_bytes;
  const std::uint32_t barriers = base +
                                 k_groups * (query_bytes + k_group_stages * k_group_stage_bytes) +
                                 group * k_group_stages * 8;
  const int group_barrier = 1 + group;  // hardware barrier of the group's 128 threads

  TileCursor issue;
  const std::int64_t count = find_part<k_group_tile_keys>(p, lane, blockIdx.x * k_groups + group,
                                                          gridDim.x * k_groups, issue);
  if (count == 0) return;  // the whole group
  if (thread == 0) {
    for (int slot = 0; slot < k_group_stages; ++slot) ptx::barrier_init(barriers + slot * 8, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  ptx::named_barrier(group_barrier, k_group_threads);  // the barriers are initialised

  TileCursor use = issue;
  PageWindow<k_group_tile_keys> window;
  std::int64_t issued = 0;
  const auto issue_next = [&](int slot) {
    if (warp != 0 || issued == count) return;
    if (issued > 0) advance<k_group_tile_keys>(p, issue);
    issue_page(p, window, issue, ring + slot * k_group_stage_bytes, barriers + slot * 8, lane);
    ++issued;
  };
  for (int slot = 0; slot < k_group_stages; ++slot) issue_next(slot);

  float2 weights[kHeadTiles];
  int q_row = -1;
  int slot = 0;
  std::uint32_t parity = 0;
  for (std::int64_t done = 0; done < count; ++done) {
    if (use.row != q_row) {
      q_row = use.row;
      // Nobody of the group is still multiplying by the old query: every wgmma was waited for, and
      // the barrier after the last tile's reads came after that.
      ptx::named_barrier(group_barrier, k_group_threads);
      store_query<kHeadTiles>(p, q_row, query, thread);
      load_weights<kHeadTiles>(p, q_row, c, weights);
      hopper::fence_async_proxy();
      ptx::named_barrier(group_barrier, k_group_threads);  // the query is complete
    }
    ptx::barrier_wait(barriers + slot * 8, parity);
    const std::uint32_t stage = ring + slot * k_group_stage_bytes;
    RawKeys<IndexerFormat::fp8> raw;
    float scale[2];
#pragma unroll
    for (int key = 0; key < 2; ++key) {
      const int row = warp * 16 + g + 8 * key;
      raw.chunk[key][0] = ptx::load_u128(stage + row * 128 + c * 16);
      raw.chunk[key][1] = ptx::load_u128(stage + row * 128 + (c + 4) * 16);
      scale[key] = ptx::load_f32(stage + k_group_value_bytes + row * 4);
    }
    std::uint32_t a[k_logit_steps][4];
#pragma unroll
    for (int step = 0; step < k_logit_steps; ++step) {
#pragma unroll
      for (int key = 0; key < 2; ++key) {
        const uint2 pair = e4m3x4_to_f16(raw.word(key, step));
        a[step][key] = pair.x;
        a[step][2 + key] = pair.y;
      }
    }
    ptx::named_barrier(group_barrier, k_group_threads);  // every warp has read the stage
    issue_next(slot);

    float acc[kHeadTiles][4];
    hopper::wgmma_fence();
#pragma unroll
    for (int step = 0; step < k_logit_steps; ++step) {
      hopper::wgmma_f16<kHeadTiles>(
          acc, a[step],
          hopper::query_descriptor(query + step * 2 * kHeadTiles * 128, kHeadTiles * 8), step == 0);
    }
    hopper::wgmma_finish();
    hopper::pin(acc);
    const float2 sum = sum_heads<kHeadTiles>(acc, weights);
    const int key = use.tile * k_group_tile_keys + warp * 16 + g + 8 * c;
    if (c < 2 && key < use.length) {
      p.logits[use.row * p.logits_row_stride + key] =
          __fmul_rn(c == 0 ? sum.x : sum.y, c == 0 ? scale[0] : scale[1]);
    }
    if (++slot == k_group_stages) {
      slot = 0;
      parity ^= 1U;
    }
    if (done + 1 < count) advance<k_group_tile_keys>(p, use);
  }
}

}  // namespace splitwave::cuda
