// The gather: four warps that turn index lists into rows of the shared-memory ring with cp.async.
// Owns validity: an invalid row is never read, its bytes in the ring are zero (0 * NaN would poison
// O) and its valid bit is clear; the same holds for the positions that pad a chunk to whole blocks.
// Runs ahead over items as far as the ring allows, so that the next row's bytes travel while the
// last one's epilogue runs.
#pragma once

#include "kernels/cuda/sm90a/roles.cuh"

namespace splitwave::cuda::sm90a {

template <class V>
struct Producer {
  static constexpr Sm90aShape k = V::shape;
  static constexpr KvFormat k_format = k.config.format;
  static constexpr bool k_v4 = k_format == KvFormat::v4;
  static constexpr int k_row = sm90a_row_bytes(k_format);
  static constexpr int k_data_bytes = k_v4 ? k_v4_data_bytes : k_v32_row_bytes;
  static constexpr int k_step =
      k_sm90a_producer_warps * k_sm90a_stage_rows;  // rows between a warp's stages
  static constexpr unsigned k_all = 0xFFFFFFFFU;

  const DecodeParams& p;
  std::uint32_t smem;
  int warp;
  std::uint32_t stage;  // running number of this warp's next stage
  int row;              // of the item
  int length_main;      // list positions below it are main's
  int length_total;

  __device__ void run() {
    stage = warp;
    // The item count waits in shared memory: registers are short. All lanes store the same value.
    const std::uint32_t round = smem + k.kept + (k_sm90a_math_warps + warp) * 32;
    ptx::store_u32(round, 0);
#pragma unroll 1
    for (;; ptx::store_u32(round, ptx::load_u32(round) + 1)) {
      int begin, end;
      std::int32_t first[2];
      if (!start_item(static_cast<int>(ptx::load_u32(round)), begin, end, first)) return;
        // Chunk by chunk: each is padded to whole blocks.
#pragma unroll 1
      while (begin < end) {
        gather(begin, min(begin + p.chunk_rows, end), first);
        begin += p.chunk_rows;
        load_first(begin, end, first);
      }
    }
  }

  // Finds the item and its lengths, publishes them; begin and end: its list positions.
  __device__ bool start_item(int round, int& begin, int& end, std::int32_t (&first)[2]) {
    {
      const Item item = item_without_lengths(p, item_index(round));
      if (item.row < 0) return false;
      row = item.row;
      begin = item.chunk_begin * p.chunk_rows;
      end = item.chunk_end * p.chunk_rows;
      length_main = item.length_main;
      length_total = item.length_total;
    }
    if (p.map.kind != ItemMapKind::list) {
      // Guess that main is full: the first entries then travel together with the lengths.
      length_main = p.list[0].width;
      load_first(begin, length_main + p.list[1].width, first);
      const int measured = row_length(p, 0, row, lane_now());
      length_total = measured + row_length(p, 1, row, lane_now());
      const bool guessed = measured == length_main;
      length_main = measured;
      if (!guessed) load_first(begin, length_total, first);
    } else {
      load_first(begin, length_total, first);
    }
    end = min(end, length_total);
    if (warp == 0) publish(round);
    return true;
  }

  // Warp 0 hands the item to the math warps, its lengths filled in.
  __device__ void publish(int round) const {
    const int buffer = round & 1;
    ptx::barrier_wait(smem + k.info_empty + 8 * buffer, ((round >> 1) & 1) ^ 1);
    if (lane_now() == 0) {
      const Item item = item_without_lengths(p, item_index(round));
      const std::uint32_t at = smem + k.info + 32 * buffer;
      ptx::store_u128(at, make_uint4(item.row, item.head_block, item.chunk_begin, item.chunk_end));
      ptx::store_u128(at + 16, make_uint4(item.slot, length_main, length_total, 0));
      ptx::barrier_arrive(smem + k.info_full + 8 * buffer);
    }
    __syncwarp();
  }

  // This lane's row of the warp's first stage of a chunk.
  __device__ int row_in_chunk() const {
    return warp * k_sm90a_stage_rows + (lane_now() & (k_sm90a_stage_rows - 1));
  }

  // The list entry at a position, -1 at or past the end. Pointers are made anew each time:
  // registers are short.
  __device__ std::int32_t entry_at(int position, int end) const {
    if (position >= end) return -1;
    return list_entry(p, row, position, length_main);
  }

  __device__ void load_first(int begin, int end, std::int32_t (&first)[2]) const {
    first[0] = entry_at(begin + row_in_chunk(), end);
    first[1] = entry_at(begin + row_in_chunk() + k_step, end);
  }

  __device__ void gather(int begin, int end, const std::int32_t (&first)[2]) {
    const int stop = begin + blocks_of(end - begin) * k_sm90a_block_rows;
    std::int32_t entry = first[0];
    std::int32_t next = first[1];
#pragma unroll 1
    for (int at = begin + row_in_chunk(); at < stop; at += k_step) {
      if (at >= end || lane_now() >= k_sm90a_stage_rows) entry = -1;
      const std::int32_t after_next = entry_at(at + 2 * k_step, end);
      fill_stage(entry, at < length_main);
      entry = next;
      next = after_next;
      stage += k_sm90a_producer_warps;
    }
  }

  __device__ void fill_stage(std::int32_t entry, bool is_main) const {
    const int lane = lane_now();
    const RingPosition<V> at = ring_position<V>(stage);
    const RowAddress source = row_address<k_format>(p, entry, is_main);
    const unsigned valid = __ballot_sync(k_all, source.is_valid);
    const unsigned plain = __ballot_sync(k_all, source.is_valid && source.is_16_aligned);
    const std::uint32_t to = smem + k.ring + at.slot * k_stage_bytes<V>;
    ptx::barrier_wait(smem + k.empty + 8 * at.slot, at.parity ^ 1U);
    if (k_v4 && source.is_valid)
      ptx::copy_async_8(to + lane * k_row + k_v4_data_bytes, source.scales, 8);
    if (plain == 0xFFFFU) {
      copy_plain(source.data, to, lane);
    } else {
      copy_careful(source.data, to, valid, plain, lane);
    }
    const std::uint32_t full = smem + k.full + 8 * at.slot;
    ptx::barrier_arrive_on_copies(full);
    // The copies' arrivals order no other store: this one publishes the valid bits and the zeros.
    if (lane == 0) ptx::store_u32(smem + k.valid + 4 * at.slot, valid);
    __syncwarp();
    if (lane == 0) ptx::barrier_arrive(full);
  }

  __device__ static const std::uint8_t* shuffled(const std::uint8_t* pointer, int owner) {
    return reinterpret_cast<const std::uint8_t*>(
        __shfl_sync(k_all, reinterpret_cast<unsigned long long>(pointer), owner));
  }

  // 16 valid rows, 16-byte aligned. Eight lanes share a row, 128 bytes an instruction: one address
  // is passed around for four or five copies of four rows. Then what is left of several rows at
  // once.
  __device__ static void copy_plain(const std::uint8_t* data, std::uint32_t to, int lane) {
#pragma unroll
    for (int h = 0; h < 4; ++h) {
      const int r = 4 * h + (lane >> 3);
      const std::uint8_t* from = shuffled(data, r) + (lane & 7) * 16;
      const std::uint32_t at = to + r * k_row + (lane & 7) * 16;
#pragma unroll
      for (int i = 0; i < 4; ++i) ptx::copy_async_16(at + 128 * i, from + 128 * i);
      if constexpr (!k_v4) ptx::copy_async_16(at + 528, from + 528);
    }
    if constexpr (k_v4) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int r = 8 * h + (lane >> 2);
        const int piece = 512 + (lane & 3) * 16;
        ptx::copy_async_16(to + r * k_row + piece, shuffled(data, r) + piece);
      }
    } else {
      if (lane < k_sm90a_stage_rows) ptx::copy_async_16(to + lane * k_row + 512, data + 512);
    }
  }

  // Some row is invalid, or only 8-byte aligned (pages of odd size: 584 = 8 * 73).
  __device__ static void copy_careful(const std::uint8_t* data, std::uint32_t to, unsigned valid,
                                      unsigned plain, int lane) {
#pragma unroll 1
    for (int r = 0; r < k_sm90a_stage_rows; ++r) {
      const std::uint8_t* from = shuffled(data, r);
      const std::uint32_t at = to + r * k_row;
      if (((valid >> r) & 1) == 0) {
#pragma unroll 1
        for (int i = lane; i < k_row / 16; i += 32) ptx::store_u128(at + i * 16, uint4{0, 0, 0, 0});
      } else if (((plain >> r) & 1) != 0) {
#pragma unroll 1
        for (int i = lane; i < k_data_bytes / 16; i += 32)
          ptx::copy_async_16(at + i * 16, from + i * 16);
      } else {
#pragma unroll 1
        for (int i = lane; i < k_data_bytes / 8; i += 32)
          ptx::copy_async_8(at + i * 8, from + i * 8, 8);
      }
    }
  }
};

}  // namespace splitwave::cuda::sm90a
