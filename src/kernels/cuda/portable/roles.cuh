// What the three roles share: shared-memory addresses, the ring's cursor, the hand-over of items.
// Owns no arithmetic. Included by producer.cuh, qk.cuh, pv.cuh.
#pragma once

#include <cstddef>

#include "kernels/cuda/common/item_map.cuh"
#include "kernels/cuda/common/ptx.cuh"
#include "kernels/cuda/portable/config.h"

namespace splitwave::cuda::portable {

// A variant is a type with `static constexpr PortableShape shape`: nvcc 13.0 cannot pass a
// namespaced struct as a template value to a kernel.
template <class V>
struct Smem {
  std::uint32_t base;

  __device__ std::uint32_t barrier(int index) const {
    return base + V::shape.smem.barriers + 8 * index;
  }
  __device__ std::uint32_t ring_full(int s) const {
    return barrier(V::shape.barriers.ring_full + s);
  }
  __device__ std::uint32_t ring_empty(int s) const {
    return barrier(V::shape.barriers.ring_empty + s);
  }
  __device__ std::uint32_t p_full(int b) const { return barrier(V::shape.barriers.p_full + b); }
  __device__ std::uint32_t p_empty(int b) const { return barrier(V::shape.barriers.p_empty + b); }
  __device__ std::uint32_t stats_full(int b) const {
    return barrier(V::shape.barriers.stats_full + b);
  }
  __device__ std::uint32_t stats_empty(int b) const {
    return barrier(V::shape.barriers.stats_empty + b);
  }
  __device__ std::uint32_t info_full(int b) const {
    return barrier(V::shape.barriers.info_full + b);
  }
  __device__ std::uint32_t info_empty(int b) const {
    return barrier(V::shape.barriers.info_empty + b);
  }
  // First byte of a stage's raw rows.
  __device__ std::uint32_t stage(int s) const {
    return base + V::shape.smem.ring + s * (V::shape.config.stage_rows * V::shape.ring_row_bytes);
  }
};

// Hides where a value came from, so that what is derived from it is computed again here (an add)
// and not kept in a register from an outer loop on. 128 registers a thread leave no room for
// hoisted addresses.
template <class T>
__device__ __forceinline__ T opaque(T value) {
  asm volatile("" : "+r"(value));
  return value;
}

// How a warp arrives: one lane for all of them, after __syncwarp has ordered their accesses.
// racecheck credits an arrival to the arriving lane alone, so the build that it judges lets every
// lane arrive.
#ifdef SPLITWAVE_EVERY_LANE_ARRIVES
inline constexpr int k_arrivals_of_warp = 32;
#else
inline constexpr int k_arrivals_of_warp = 1;
#endif
__device__ __forceinline__ void arrive_as_warp(std::uint32_t barrier, int lane) {
  __syncwarp();
  if (k_arrivals_of_warp == 32 || lane == 0) ptx::barrier_arrive(barrier);
}

// Position in the ring: stage and the parity of its current use.
template <class V>
struct RingCursor {
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ void advance() {
    if (++stage == V::shape.config.stages) {
      stage = 0;
      parity ^= 1;
    }
  }
  __device__ RingCursor ahead(int by) const {
    RingCursor c{stage + by, parity};
    if (c.stage >= V::shape.config.stages) {
      c.stage -= V::shape.config.stages;
      c.parity ^= 1;
    }
    return c;
  }
};

// Counts uses of a double buffer: which of the two, and the parity to wait for.
struct Turn {
  std::uint32_t count = 0;

  __device__ int buffer() const { return static_cast<int>(count & 1U); }
  __device__ std::uint32_t full_parity() const { return (count >> 1) & 1U; }
  __device__ std::uint32_t empty_parity() const { return full_parity() ^ 1U; }
};

// The item that producer warp 0 published, left in shared memory: its fields are read when they are
// needed and hold no register meanwhile. Every warp takes and releases every item.
template <class V>
struct ItemView {
  std::uint32_t at = 0;  // of an Item in shared memory

  __device__ int field(int index) const { return static_cast<int>(ptx::load_u32(at + 4 * index)); }
  __device__ int row() const { return field(0); }
  __device__ int head_block() const { return field(1); }
  __device__ int chunk_begin() const { return field(2); }
  __device__ int chunk_end() const { return field(3); }
  __device__ int slot() const { return field(4); }
  __device__ int length_main() const { return field(5); }
  __device__ int length_total() const { return field(6); }
  __device__ int piece_chunks() const { return field(7); }
  __device__ bool is_folded() const { return chunk_begin() == 0; }

  // One past the last chunk that has rows in this item; a folded item always has at least one
  // chunk, so that an empty row is written too.
  __device__ int live_chunk_end(const DecodeParams& p) const {
    const int chunks = (length_total() + p.chunk_rows - 1) / p.chunk_rows;
    const int end = min(chunk_end(), chunks);
    return is_folded() ? max(end, 1) : end;
  }
  __device__ int rows_of_chunk(const DecodeParams& p, int chunk) const {
    return min(max(length_total() - chunk * p.chunk_rows, 0), p.chunk_rows);
  }
};
static_assert(offsetof(Item, row) == 0 && offsetof(Item, length_total) == 24);

template <class V>
__device__ __forceinline__ ItemView<V> take_item(const Smem<V>& smem, const Turn& turn) {
  ptx::barrier_wait(smem.info_full(turn.buffer()), turn.full_parity());
  return {smem.base + V::shape.smem.info + 32 * turn.buffer()};
}
template <class V>
__device__ __forceinline__ void release_item(const Smem<V>& smem, Turn& turn, int lane) {
  arrive_as_warp(smem.info_empty(turn.buffer()), lane);
  ++turn.count;
}

// Raw rows of a 16-token tile are spread over the fragment's rows so that a quarter warp's two rows
// of 64 bytes are 16 banks apart: fragment row g holds token k_qk_row(g), g + 8 that + 8.
__device__ __forceinline__ int qk_row(int g) { return (g >> 1) | ((g & 1) << 2); }

// 16-byte chunk of a P row after swizzling, so that 8 consecutive rows meet 8 different bank
// groups.
template <class V>
__device__ __forceinline__ int p_chunk(int row, int chunk) {
  constexpr int chunks = V::shape.config.block_heads / 8;
  if constexpr (chunks == 1) return chunk;
  if constexpr (chunks == 2) return chunk ^ ((row >> 2) & 1);
  return chunk ^ ((row >> 1) & 3);
}

template <class V>
__device__ __forceinline__ std::uint32_t p_buffer(const Smem<V>& smem, int buffer, int part) {
  constexpr int bytes = V::shape.tile_rows * V::shape.config.block_heads * 2;
  return smem.base + V::shape.smem.p + (buffer * p_parts(V::shape.config.format) + part) * bytes;
}

}  // namespace splitwave::cuda::portable
