// The logits kernel's body. Owns the division of work and the pipeline of one warp.
//
// Work: the tiles of 16 keys of all rows, in row order, are one list; warp w of W takes the w-th
// equal part of it, whatever the lengths. Nothing is shared between warps: each streams its own
// tiles through its own ring in shared memory (cp.async groups, no barrier wider than a warp) and
// holds its row's whole query in registers as the B operand. The keys are the A operand, converted
// in registers, each once for all heads. A warp that crosses into another row reloads the query;
// the ring keeps running.
//
// Bits: tile, head tile and quad order are fixed, and a tile's result does not depend on which warp
// computes it: batch, neighbours and grid change nothing.
#pragma once

#include "kernels/cuda/common/ptx.cuh"
#include "kernels/cuda/indexer/copy_groups.cuh"
#include "kernels/cuda/indexer/fragments.cuh"
#include "kernels/cuda/indexer/params.h"

namespace splitwave::cuda {

inline constexpr unsigned k_all_lanes = 0xFFFFFFFFU;

// max(x, 0) that keeps a NaN, which fmaxf would drop.
__device__ __forceinline__ float relu_keep_nan(float x) {
  float out;
  asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(out) : "f"(x));
  return out;
}

// An IndexerConfig as a type: nvcc's host stubs cannot name a kernel by a class value.
template <IndexerFormat kKeys, IndexerQuery kQuery, int kHeadTiles, bool kAligned>
struct LogitsShape {
  static constexpr IndexerFormat keys = kKeys;
  static constexpr IndexerQuery query = kQuery;
  static constexpr int head_tiles = kHeadTiles;
  static constexpr bool is_page_aligned = kAligned;
  static constexpr int stages = logit_stages(kKeys);
  static constexpr IndexerConfig config = {keys, query, head_tiles, is_page_aligned, stages};
  static constexpr int shared_bytes = logit_shared_bytes(config);
};

// A place in the list of tiles; all lanes hold the same.
struct TileCursor {
  int row = 0;
  int length = 0;  // keys of the row
  int tile = 0;
  int tiles = 0;  // of the row
};

__device__ __forceinline__ int row_length(const LogitsParams& p, int row) {
  const int length = __ldg(p.lengths + row);
  const int limit = static_cast<int>(p.length_max);
  return length < 0 ? 0 : length > limit ? limit : length;
}
template <int kTileKeys>
__device__ __forceinline__ int tiles_of(int length) {
  return (length + kTileKeys - 1) / kTileKeys;
}

// To the next tile; the caller knows that there is one.
template <int kTileKeys>
__device__ __forceinline__ void advance(const LogitsParams& p, TileCursor& at) {
  if (++at.tile < at.tiles) return;
  at.tile = 0;
  do {
    ++at.row;
    at.length = row_length(p, at.row);
    at.tiles = tiles_of<kTileKeys>(at.length);
  } while (at.tiles == 0);
}

// Worker `worker` of `workers`' part of the list: its first tile, and how many. All lanes of a warp
// call it together.
template <int kTileKeys>
__device__ inline std::int64_t find_part(const LogitsParams& p, int lane, std::int64_t worker,
                                         std::int64_t workers, TileCursor& at) {
  std::int64_t total = 0;
  for (int base = 0; base < p.rows; base += 32) {
    const int row = base + lane;
    int tiles = row < p.rows ? tiles_of<kTileKeys>(row_length(p, row)) : 0;
    tiles = __reduce_add_sync(k_all_lanes, tiles);
    total += tiles;
  }
  const std::int64_t first = total * worker / workers;
  const std::int64_t count = total * (worker + 1) / workers - first;
  if (count == 0) return 0;
  std::int64_t before = 0;
  for (int base = 0; base < p.rows; base += 32) {
    const int row = base + lane;
    const int length = row < p.rows ? row_length(p, row) : 0;
    const int tiles = tiles_of<kTileKeys>(length);
    int inclusive = tiles;
#pragma unroll
    for (int span = 1; span < 32; span *= 2) {
      const int other = __shfl_up_sync(k_all_lanes, inclusive, span);
      if (lane >= span) inclusive += other;
    }
    const int sum = __shfl_sync(k_all_lanes, inclusive, 31);
    if (before + sum > first) {
      const unsigned past = __ballot_sync(k_all_lanes, before + inclusive > first);
      const int owner = __ffs(static_cast<int>(past)) - 1;
      at.row = base + owner;
      at.length = __shfl_sync(k_all_lanes, length, owner);
      at.tiles = __shfl_sync(k_all_lanes, tiles, owner);
      const int row_first = __shfl_sync(k_all_lanes, inclusive - tiles, owner);
      at.tile = static_cast<int>(first - before - row_first);
      return count;
    }
    before += sum;
  }
  return 0;
}

// The page ids and in-page key offsets of the cursor's next tiles, one tile a lane, so that a page
// table lookup is 32 tiles ahead of its use.
template <int kTileKeys>
struct PageWindow {
  int row = -1;
  int first = 0;  // tile of lane 0
  int page = 0;
  int offset = 0;
  int next_page = 0;

  __device__ __forceinline__ int lookup(const LogitsParams& p, const TileCursor& at,
                                        int tile) const {
    const int tiles_per_page = p.page_size / kTileKeys;
    return tile < at.tiles
               ? __ldg(p.page_table + at.row * p.page_table_stride + tile / tiles_per_page)
               : -1;
  }
  __device__ __forceinline__ void follow(const LogitsParams& p, const TileCursor& at, int lane) {
    if (at.row == row && at.tile < first + 32) return;
    const bool continues = at.row == row;
    row = at.row;
    first = at.tile;
    page = continues ? next_page : lookup(p, at, first + lane);
    next_page = lookup(p, at, first + 32 + lane);
    offset = (first + lane) % (p.page_size / kTileKeys) * kTileKeys;
  }
};

template <IndexerFormat kKeys>
__device__ __forceinline__ std::uint32_t swizzled(int key, int chunk) {
  // Odd keys exchange the halves of each eight chunks: without it the lanes of keys 2i and 2i + 1
  // would read the same banks (rows are 128 or 256 bytes apart; fp4's 64 need nothing).
  return kKeys == IndexerFormat::fp4 ? chunk : chunk ^ ((key & 1) << 2);
}

template <IndexerFormat kKeys>
struct TileLoader {
  static constexpr int k_value_bytes = k_indexer_value_bytes<kKeys>;
  static constexpr int k_row_chunks = k_value_bytes / 16;
  static constexpr int k_tile_chunks = k_row_chunks * k_logit_tile_keys;

  // Chunk i of the tile, counted along the keys.
  static __device__ __forceinline__ std::uint32_t place(std::uint32_t stage, int i) {
    const int key = i / k_row_chunks;
    return stage + key * k_value_bytes + swizzled<kKeys>(key, i % k_row_chunks) * 16;
  }

  // The whole tile lies in one page: contiguous bytes.
  static __device__ __forceinline__ void issue_aligned(const LogitsParams& p,
                                                       PageWindow<k_logit_tile_keys>& window,
                                                       const TileCursor& at, std::uint32_t stage,
                                                       int lane) {
    window.follow(p, at, lane);
    const int page = __shfl_sync(k_all_lanes, window.page, at.tile - window.first);
    const int offset = __shfl_sync(k_all_lanes, window.offset, at.tile - window.first);
    const bool is_present = page >= 0 && page < p.pages;
    const std::uint8_t* base = p.keys + (is_present ? page : 0) * p.page_stride_bytes;
    const std::uint8_t* values = base + static_cast<std::int64_t>(offset) * k_value_bytes;
    const std::uint32_t size = is_present ? 16U : 0U;
#pragma unroll
    for (int i = lane; i < k_tile_chunks; i += 32) {
      ptx::copy_async_16(place(stage, i), values + i * 16, size);
    }
    const std::uint32_t scales = stage + k_logit_tile_keys * k_value_bytes;
    if (!is_present || kKeys == IndexerFormat::bf16) {
      if (lane < k_logit_tile_keys) ptx::store_u32(scales + lane * 4, absent_word(is_present));
    } else if (lane < 4) {
      const std::uint8_t* from =
          base + static_cast<std::int64_t>(p.page_size) * k_value_bytes + offset * 4 + lane * 16;
      ptx::copy_async_16(scales + lane * 16, from, 16U);
    }
  }

  // Any page size: each key looks its own page up. Slower by a dependent load a tile.
  static __device__ __forceinline__ void issue_any(const LogitsParams& p, const TileCursor& at,
                                                   std::uint32_t stage, int lane) {
    const int key = at.tile * k_logit_tile_keys + (lane & 15);
    bool is_present = false;
    const std::uint8_t* base = p.keys;
    int offset = 0;
    if (key < at.length) {
      const int page = __ldg(p.page_table + at.row * p.page_table_stride + key / p.page_size);
      offset = key % p.page_size;
      is_present = page >= 0 && page < p.pages;
      base += (is_present ? page : 0) * p.page_stride_bytes;
    }
    const std::uint64_t values =
        reinterpret_cast<std::uint64_t>(base + static_cast<std::int64_t>(offset) * k_value_bytes);
    const std::uint32_t size = is_present ? 16U : 0U;
#pragma unroll
    for (int i = lane; i < k_tile_chunks; i += 32) {
      const int owner = i / k_row_chunks;
      const std::uint64_t from = __shfl_sync(k_all_lanes, values, owner);
      const std::uint32_t bytes = __shfl_sync(k_all_lanes, size, owner);
      ptx::copy_async_16(place(stage, i),
                         reinterpret_cast<const std::uint8_t*>(from) + i % k_row_chunks * 16,
                         bytes);
    }
    if (lane < k_logit_tile_keys) {
      std::uint32_t word = absent_word(is_present);
      if (is_present && kKeys != IndexerFormat::bf16) {
        const std::int64_t scale_at =
            static_cast<std::int64_t>(p.page_size) * k_value_bytes + offset * 4;
        word = __ldg(reinterpret_cast<const std::uint32_t*>(base + scale_at));
      }
      ptx::store_u32(stage + k_logit_tile_keys * k_value_bytes + lane * 4, word);
    }
  }

  // The scale word of a key without one: 1, or NaN (fp4: four NaN scales) when its page is absent.
  static __device__ __forceinline__ std::uint32_t absent_word(bool is_present) {
    return is_present ? 0x3F800000U : kKeys == IndexerFormat::fp4 ? 0xFFFFFFFFU : k_nan_bits;
  }
};

// A lane's heads in ascending order, then the quad's lanes: the sums of keys g and g + 8.
template <int kHeadTiles>
__device__ __forceinline__ float2 sum_heads(const float (&acc)[kHeadTiles][4],
                                            const float2 (&weights)[kHeadTiles]) {
  float2 sum = {0.0F, 0.0F};
#pragma unroll
  for (int n = 0; n < kHeadTiles; ++n) {
    sum.x = __fmaf_rn(relu_keep_nan(acc[n][0]), weights[n].x, sum.x);
    sum.x = __fmaf_rn(relu_keep_nan(acc[n][1]), weights[n].y, sum.x);
    sum.y = __fmaf_rn(relu_keep_nan(acc[n][2]), weights[n].x, sum.y);
    sum.y = __fmaf_rn(relu_keep_nan(acc[n][3]), weights[n].y, sum.y);
  }
#pragma unroll
  for (int span = 1; span < 4; span *= 2) {
    sum.x = __fadd_rn(sum.x, __shfl_xor_sync(k_all_lanes, sum.x, span));
    sum.y = __fadd_rn(sum.y, __shfl_xor_sync(k_all_lanes, sum.y, span));
  }
  return sum;
}

template <int kHeadTiles>
__device__ __forceinline__ void load_weights(const LogitsParams& p, int row, int c,
                                             float2 (&weights)[kHeadTiles]) {
  const float* w = p.weights + row * p.weights_row_stride;
#pragma unroll
  for (int n = 0; n < kHeadTiles; ++n) {
    const int head = n * 8 + 2 * c;
    weights[n].x = head < p.heads ? __ldg(w + head) : 0.0F;
    weights[n].y = head + 1 < p.heads ? __ldg(w + head + 1) : 0.0F;
  }
}

// One tile against all heads: the lane's sums for keys g and g + 8, complete over the quad.
template <class Shape, bool kLargeScales>
__device__ __forceinline__ float2
score_tile(const RawKeys<Shape::keys>& raw, KeyContext& context,
           const std::uint32_t (&q)[Shape::head_tiles][k_logit_steps][2],
           const float2 (&weights)[Shape::head_tiles], int live_heads, int c) {
  constexpr bool is_f16 = k_is_f16<Shape::keys, Shape::query>;
  float acc[Shape::head_tiles][4];
#pragma unroll
  for (int n = 0; n < Shape::head_tiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) acc[n][i] = 0.0F;
  }
#pragma unroll
  for (int step = 0; step < k_logit_steps; ++step) {
    FragmentA a;
    convert_step<Shape::keys, Shape::query, kLargeScales>(raw, step, context, a);
#pragma unroll
    for (int n = 0; n < Shape::head_tiles; ++n) {
      if constexpr (is_f16) {
        mma_f16(acc[n], a, q[n][step][0], q[n][step][1]);
      } else {
        mma_bf16(acc[n], a, q[n][step][0], q[n][step][1]);
      }
    }
  }
  if constexpr (!is_f16) {
    // A pad head's query is 0; against an infinite key that is NaN, and must not count.
#pragma unroll
    for (int n = 0; n < Shape::head_tiles; ++n) {
      if (n * 8 + 2 * c >= live_heads) acc[n][0] = acc[n][2] = 0.0F;
      if (n * 8 + 2 * c + 1 >= live_heads) acc[n][1] = acc[n][3] = 0.0F;
    }
  }
  // A lane that saw a NaN code makes its own part NaN, and so the quad's sum.
  if (context.nan[0] != 0) acc[0][0] = __uint_as_float(k_nan_bits);
  if (context.nan[1] != 0) acc[0][2] = __uint_as_float(k_nan_bits);
  return sum_heads<Shape::head_tiles>(acc, weights);
}

template <class Shape>
__device__ __forceinline__ void load_row(const LogitsParams& p, int row, int g, int c,
                                         std::uint32_t (&q)[Shape::head_tiles][k_logit_steps][2],
                                         float2 (&weights)[Shape::head_tiles]) {
  load_query<Shape::keys, Shape::query, Shape::head_tiles>(
      p.q + row * p.q_row_stride_bytes, p.q_scales + row * p.q_scales_row_stride, p.heads, g, c, q);
  load_weights<Shape::head_tiles>(p, row, c, weights);
}

// Raw bytes and scale words of a landed tile.
template <IndexerFormat kKeys>
__device__ __forceinline__ void read_tile(std::uint32_t stage, int g, int c, RawKeys<kKeys>& raw,
                                          std::uint32_t (&scale)[2]) {
  constexpr int value_bytes = k_indexer_value_bytes<kKeys>;
#pragma unroll
  for (int key = 0; key < 2; ++key) {
    const int row = g + 8 * key;
#pragma unroll
    for (int i = 0; i < RawKeys<kKeys>::k_chunks; ++i) {
      raw.chunk[key][i] =
          ptx::load_u128(stage + row * value_bytes + swizzled<kKeys>(row, c + 4 * i) * 16);
    }
    scale[key] = ptx::load_u32(stage + k_logit_tile_keys * value_bytes + row * 4);
  }
}

template <class Shape>
__global__ void __launch_bounds__(k_logit_threads, 1)
    indexer_logits_kernel(const __grid_constant__ LogitsParams p) {
  constexpr IndexerFormat keys = Shape::keys;
  constexpr int stage_bytes = k_logit_stage_bytes<keys>;
  extern __shared__ __align__(16) std::uint8_t shared[];
  const int lane = threadIdx.x % 32;
  const int g = lane / 4;
  const int c = lane % 4;
  const std::uint32_t ring =
      ptx::shared_address(shared) + threadIdx.x / 32 * Shape::stages * stage_bytes;

  TileCursor issue;
  const std::int64_t count = find_part<k_logit_tile_keys>(
      p, lane, static_cast<std::int64_t>(blockIdx.x) * k_logit_warps + threadIdx.x / 32,
      static_cast<std::int64_t>(gridDim.x) * k_logit_warps, issue);
  if (count == 0) return;
  TileCursor use = issue;
  PageWindow<k_logit_tile_keys> window;
  std::int64_t issued = 0;
  const auto issue_next = [&](int slot) {
    if (issued < count) {
      if (issued > 0) advance<k_logit_tile_keys>(p, issue);
      if constexpr (Shape::is_page_aligned) {
        TileLoader<keys>::issue_aligned(p, window, issue, ring + slot * stage_bytes, lane);
      } else {
        TileLoader<keys>::issue_any(p, issue, ring + slot * stage_bytes, lane);
      }
      ++issued;
    }
    ptx::commit_copies();  // an empty group at the end keeps the count
  };
  for (int slot = 0; slot < Shape::stages; ++slot) issue_next(slot);

  std::uint32_t q[Shape::head_tiles][k_logit_steps][2];
  float2 weights[Shape::head_tiles];
  int q_row = -1;
  int slot = 0;
  for (std::int64_t done = 0; done < count; ++done) {
    if (use.row != q_row) {
      q_row = use.row;
      load_row<Shape>(p, q_row, g, c, q, weights);
    }
    ptx::wait_copies<Shape::stages - 1>();
    __syncwarp();  // other lanes' copies and scale words have landed too
    RawKeys<keys> raw;
    std::uint32_t scale[2];
    read_tile<keys>(ring + slot * stage_bytes, g, c, raw, scale);
    __syncwarp();  // every lane has read the slot: it may be filled again
    issue_next(slot);
    slot = slot + 1 == Shape::stages ? 0 : slot + 1;

    KeyContext context;
    float2 sum;
    bool has_large = false;
    if constexpr (keys == IndexerFormat::fp4) {
#pragma unroll
      for (int key = 0; key < 2; ++key) {
        const std::uint32_t e = (scale[key] >> (8 * c)) & 0xFFU;
        e2m1_factors(e, context.factor[key], context.more_factor[key]);
        has_large |= e > 128;
        scale[key] = 0x3F800000U;
      }
      has_large = __any_sync(k_all_lanes, has_large);
    }
    if (keys == IndexerFormat::fp4 && has_large) {
      sum = score_tile<Shape, true>(raw, context, q, weights, p.heads, c);
    } else {
      sum = score_tile<Shape, false>(raw, context, q, weights, p.heads, c);
    }
    // Quad lane 0 stores key g, quad lane 1 key g + 8.
    constexpr float dot_factor = k_dot_factor<keys, Shape::query>;
    const float value = (c == 0 ? sum.x : sum.y) * dot_factor;
    const int key = use.tile * k_logit_tile_keys + g + 8 * c;
    if (c < 2 && key < use.length) {
      p.logits[use.row * p.logits_row_stride + key] =
          __fmul_rn(value, __uint_as_float(c == 0 ? scale[0] : scale[1]));
    }
    if (done + 1 < count) advance<k_logit_tile_keys>(p, use);
  }
}

}  // namespace splitwave::cuda
