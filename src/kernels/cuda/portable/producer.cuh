// The producer role: finds items, reads index lists, gathers raw cache rows into the ring with
// cp.async. Owns validity: an invalid row is never read, its bytes in the ring are zero (0 * NaN
// would poison O) and its bit in `valid` is clear.
//
// Every producer warp fills its own `part` rows of each stage. A lane resolves one row; 32 / part
// stages are resolved at a time. Two copies bring most of a row: one instruction moves 512 bytes of
// one row, one the last bytes of several.
#pragma once

#include "kernels/cuda/common/gather.cuh"
#include "kernels/cuda/portable/roles.cuh"

namespace splitwave::cuda::portable {

template <class V>
struct Producer {
  static constexpr PortableConfig k = V::shape.config;
  static constexpr int k_part =
      k.stage_rows / k.producer_warps;                // rows of a stage that a warp fills
  static constexpr int k_batch_stages = 32 / k_part;  // stages that 32 lanes resolve
  static constexpr int k_row_bytes = V::shape.ring_row_bytes;
  static constexpr int k_data_bytes = k.format == KvFormat::v4 ? k_v4_data_bytes : k_v32_row_bytes;
  static constexpr int k_tail_chunks =
      (k_data_bytes - 512) / 16;  // 16-byte pieces past the first 512
  static_assert(k_part * k.producer_warps == k.stage_rows && 32 % k_part == 0);

  const DecodeParams& p;
  Smem<V> smem;
  int warp;
  int lane;
  RingCursor<V> cursor;
  Turn items;

  __device__ void run() {
    for (int round = 0;; ++round) {
      if (warp == 0) publish(round);
      const ItemView<V> item = take_item<V>(smem, items);
      if (item.row() < 0) return;
      gather_item(item);
      release_item<V>(smem, items, lane);
    }
  }

  __device__ void publish(int round) {
    Turn turn{static_cast<std::uint32_t>(round)};
    const Item item = item_at(p, item_index(round), lane);
    ptx::barrier_wait(smem.info_empty(turn.buffer()), turn.empty_parity());
    if (lane == 0) {
      const std::uint32_t at = smem.base + V::shape.smem.info + 32 * turn.buffer();
      ptx::store_u128(at, make_uint4(item.row, item.head_block, item.chunk_begin, item.chunk_end));
      ptx::store_u128(
          at + 16, make_uint4(item.slot, item.length_main, item.length_total, item.piece_chunks));
      ptx::barrier_arrive(smem.info_full(turn.buffer()));
    }
    __syncwarp();
  }

  __device__ void gather_item(const ItemView<V>& item) {
    const RowLists lists = lists_of(p, item.row(), item.length_main());
    const int begin = item.chunk_begin() * p.chunk_rows;
    const int end = min(item.length_total(), item.chunk_end() * p.chunk_rows);
    // A stage holds rows of one chunk. Chunks of whole stages follow each other without a seam.
    const int step = p.chunk_rows % k.stage_rows == 0 ? end - begin : p.chunk_rows;
    for (int at = begin; at < end; at += step) gather(lists, at, min(end, at + step));
  }

  // This lane's position in the list for the batch of stages that starts at `base`.
  __device__ int position(int base) const {
    return base + (lane / k_part) * k.stage_rows + warp * k_part + lane % k_part;
  }

  __device__ void gather(const RowLists& lists, int begin, int end) {
    std::int32_t slot = slot_at(lists, position(begin), end);
    for (int base = begin; base < end; base += k_batch_stages * k.stage_rows) {
      const bool is_main = position(base) < lists.length_main;
      const RowAddress row = address_of<k.format>(p, slot, is_main);
      // The next batch's entries travel while this one's rows are requested.
      slot = slot_at(lists, position(base + k_batch_stages * k.stage_rows), end);
      const std::uint32_t valid = __ballot_sync(0xFFFFFFFFU, row.is_valid);
      const std::uint32_t plain = valid & __ballot_sync(0xFFFFFFFFU, row.is_16_aligned);
#pragma unroll 1
      for (int s = 0; s < k_batch_stages; ++s) {
        if (base + s * k.stage_rows < end) fill_stage(s, row, valid, plain);
      }
    }
  }

  __device__ void fill_stage(int s, const RowAddress& row, std::uint32_t valid,
                             std::uint32_t plain) {
    constexpr std::uint32_t part_mask = k_part == 32 ? 0xFFFFFFFFU : (1U << k_part) - 1;
    ptx::barrier_wait(smem.ring_empty(cursor.stage), cursor.parity ^ 1U);
    const std::uint32_t to = smem.stage(cursor.stage) + warp * (k_part * k_row_bytes);
    if (((plain >> (s * k_part)) & part_mask) == part_mask) {
      copy_plain(s, row, to);
    } else {
      copy_careful(s, row, to);
    }
    if constexpr (k.format == KvFormat::v4) {
      // Each lane brings its own row's scales; an invalid row's become zero.
      if (lane / k_part == s) {
        ptx::copy_async_8(to + (lane % k_part) * k_row_bytes + k_ring_scale_offset_bytes,
                          row.scales, row.is_valid ? 8 : 0);
      }
    }
    const std::uint32_t full = smem.ring_full(cursor.stage);
    ptx::barrier_arrive_on_copies(full);
    if (lane == 0) {
      // The plain arrival publishes the mask: the copies' arrivals order no other store.
      ptx::store_u32(smem.base + V::shape.smem.valid + 4 * (cursor.stage * k.producer_warps + warp),
                     (valid >> (s * k_part)) & part_mask);
      ptx::barrier_arrive(full);
    }
    __syncwarp();
    cursor.advance();
  }

  // All rows valid and 16-byte aligned.
  __device__ void copy_plain(int s, const RowAddress& row, std::uint32_t to) {
#pragma unroll
    for (int r = 0; r < k_part; ++r) {
      const std::uint8_t* from = shuffled(row.data, s * k_part + r);
      ptx::copy_async_16(to + r * k_row_bytes + 16 * lane, from + 16 * lane);
    }
    constexpr int pieces = k_part * k_tail_chunks;
#pragma unroll
    for (int i = 0; i < (pieces + 31) / 32; ++i) {
      const int piece = i * 32 + lane;
      const int r = min(piece / k_tail_chunks, k_part - 1);
      const std::uint8_t* from = shuffled(row.data, s * k_part + r);
      const int offset = 512 + 16 * (piece % k_tail_chunks);
      if (piece < pieces) ptx::copy_async_16(to + r * k_row_bytes + offset, from + offset);
    }
  }

  // Rows that are invalid (zero-filled) or only 8-byte aligned (pages of odd size: 584 = 8 * 73).
  __device__ void copy_careful(int s, const RowAddress& row, std::uint32_t to) {
#pragma unroll 1
    for (int r = 0; r < k_part; ++r) {
      const int owner = s * k_part + r;
      const std::uint8_t* from = shuffled(row.data, owner);
      const bool is_valid = __shfl_sync(0xFFFFFFFFU, row.is_valid ? 1 : 0, owner) != 0;
      const bool is_16_aligned = __shfl_sync(0xFFFFFFFFU, row.is_16_aligned ? 1 : 0, owner) != 0;
      const std::uint32_t at = to + r * k_row_bytes;
      if (!is_valid || is_16_aligned) {
        for (int offset = 16 * lane; offset < k_data_bytes; offset += 512) {
          ptx::copy_async_16(at + offset, is_valid ? from + offset : from, is_valid ? 16 : 0);
        }
      } else {
        for (int offset = 8 * lane; offset < k_data_bytes; offset += 256) {
          ptx::copy_async_8(at + offset, from + offset, 8);
        }
      }
    }
  }

  __device__ const std::uint8_t* shuffled(const std::uint8_t* pointer, int owner) const {
    return reinterpret_cast<const std::uint8_t*>(
        __shfl_sync(0xFFFFFFFFU, reinterpret_cast<unsigned long long>(pointer), owner));
  }
};

}  // namespace splitwave::cuda::portable
