// The gather of a cluster's CTA: rows to be scored, whole, and the CTA's value columns of every row
// of the item. Owns validity as producer.cuh does. Four warps; each takes every fourth stage, in
// the order in which the math warps use them.
#pragma once

#include "kernels/cuda/sm90a/cluster_config.h"
#include "kernels/cuda/sm90a/roles.cuh"

namespace splitwave::cuda::sm90a {

// Items go to clusters as they go to CTAs elsewhere: there and back.
template <class V>
[[nodiscard]] __device__ __forceinline__ int cluster_item_index(int round) {
  const int clusters = static_cast<int>(gridDim.x) / V::shape.config.ctas;
  const int cluster = static_cast<int>(blockIdx.x) / V::shape.config.ctas;
  return (round & 1) != 0 ? (round + 1) * clusters - 1 - cluster : round * clusters + cluster;
}

struct StagePosition {
  std::uint32_t slot;
  std::uint32_t parity;
};
template <int Stages>
[[nodiscard]] __device__ __forceinline__ StagePosition stage_position(std::uint32_t stage) {
  const std::uint32_t pass = stage / Stages;
  return {stage - pass * Stages, pass & 1U};
}

// A step of the order in which stages are used: scores of a round, or values of one.
//   the ring holds a round's values   S0 V0 S1 V1 ...
//   else, as they are used            S0 S1 V0 S2 V1 ... V(last)
template <bool HoldsRound>
struct GatherPhase {
  int round = 0;
  bool is_value = false;
  __device__ GatherPhase after(int rounds) const {
    if constexpr (HoldsRound) return {round + (is_value ? 1 : 0), !is_value};
    if (!is_value) {
      if (round == 0) return rounds > 1 ? GatherPhase{1, false} : GatherPhase{0, true};
      return {round - 1, true};
    }
    return round + 2 < rounds ? GatherPhase{round + 2, false} : GatherPhase{round + 1, true};
  }
};

template <class V>
struct ClusterProducer {
  static constexpr auto k = V::shape;
  static constexpr KvFormat k_format = k.config.format;
  static constexpr bool k_v4 = k_format == KvFormat::v4;
  static constexpr int k_ctas = k.config.ctas;
  static constexpr int k_score_row = sm90a_row_bytes(k_format);
  static constexpr int k_value_row = sm90a_value_row_bytes(k_format, k.tiles);
  using Phase = GatherPhase<(k.value_blocks >= k.slots)>;
  static constexpr unsigned k_all = 0xFFFFFFFFU;

  const DecodeParams& p;
  std::uint32_t smem;
  int warp;
  int rank;
  std::uint32_t score_base;  // stages of the rounds before this chunk
  std::uint32_t value_base;  // blocks
  int row;
  int length_main;
  int length_total;

  __device__ void run() {
#pragma unroll 1
    for (int n = 0;; ++n) {
      int begin, end;
      std::int32_t entries[k_ctas];
      if (!start_item(n, begin, end, entries)) return;
#pragma unroll 1
      while (begin < end) {
        gather(begin, min(begin + p.chunk_rows, end), entries);
        begin += p.chunk_rows;
        load_entries({}, begin, end, entries);
      }
    }
  }

  // Finds the item, publishes its lengths; entries: of its first phase.
  __device__ bool start_item(int n, int& begin, int& end, std::int32_t (&entries)[k_ctas]) {
    const Item item = item_without_lengths(p, cluster_item_index<V>(n));
    if (item.row < 0) return false;
    row = item.row;
    length_main = item.length_main;
    length_total = item.length_total;
    begin = item.chunk_begin * p.chunk_rows;
    if (p.map.kind != ItemMapKind::list) {
      // Guess that main is full: the first entries then travel together with the lengths.
      length_main = p.list[0].width;
      load_entries({}, begin, length_main + p.list[1].width, entries);
      const int measured = row_length(p, 0, row, lane_now());
      length_total = measured + row_length(p, 1, row, lane_now());
      const bool guessed = measured == length_main;
      length_main = measured;
      if (!guessed) load_entries({}, begin, length_total, entries);
    } else {
      load_entries({}, begin, length_total, entries);
    }
    end = min(item.chunk_end * p.chunk_rows, length_total);
    if (warp == 0) publish(n, item);
    return true;
  }

  __device__ void publish(int n, const Item& item) const {
    const int buffer = n & 1;
    ptx::barrier_wait(smem + k.info_empty + 8 * buffer, ((n >> 1) & 1) ^ 1);
    if (lane_now() == 0) {
      const std::uint32_t at = smem + k.info + 32 * buffer;
      ptx::store_u128(at, make_uint4(item.row, item.head_block, item.chunk_begin, item.chunk_end));
      ptx::store_u128(at + 16, make_uint4(item.slot, length_main, length_total, 0));
      ptx::barrier_arrive(smem + k.info_full + 8 * buffer);
    }
    __syncwarp();
  }

  __device__ std::int32_t entry_at(int position, int end) const {
    if (position >= end) return -1;
    return list_entry(p, row, position, length_main);
  }

  // List position of the warp's stage number `i` of a phase, relative to the chunk.
  __device__ int position_of(const Phase& phase, int i) const {
    const int stage = warp + 4 * i;
    if (phase.is_value)
      return phase.round * k.slots * k_sm90a_block_rows + stage * k_sm90a_stage_rows;
    const int block = phase.round * k.slots + (stage >> 2) * k_ctas + rank;
    return block * k_sm90a_block_rows + (stage & 3) * k_sm90a_stage_rows;
  }

  // Two stages a register: lanes 0..15 hold the rows of the even one.
  __device__ void load_entries(const Phase& phase, int begin, int end,
                               std::int32_t (&entries)[k_ctas]) const {
    const int lane = lane_now();
#pragma unroll
    for (int j = 0; j < k_ctas; ++j) {
      if (j > 0 && !phase.is_value) break;
      entries[j] = entry_at(begin + position_of(phase, 2 * j + (lane >> 4)) + (lane & 15), end);
    }
  }

  __device__ void gather(int begin, int end, std::int32_t (&entries)[k_ctas]) {
    const int blocks = blocks_of(end - begin);
    const int rounds = (blocks + k.slots - 1) / k.slots;
    Phase phase;
#pragma unroll 1
    while (phase.round < rounds) {
      // A phase ahead: the entries of the next one travel while this one's rows are requested.
      const Phase next = phase.after(rounds);
      std::int32_t next_entries[k_ctas];
      if (next.round < rounds) load_entries(next, begin, end, next_entries);
      const int stages =
          phase.is_value ? (blocks - phase.round * k.slots) * 4 : k_sm90a_score_stages_per_round;
#pragma unroll
      for (int j = 0; j < k_ctas; ++j) {
        if (j > 0 && !phase.is_value) break;
        const int at = begin + position_of(phase, 2 * j + (lane_now() >> 4)) + (lane_now() & 15);
        const RowAddress source =
            row_address<k_format>(p, at < end ? entries[j] : -1, at < length_main);
#pragma unroll 1
        for (int half = 0; half < 2; ++half) {
          const int stage = warp + 4 * (2 * j + half);
          if (stage >= min(stages, k.slots * 4)) break;
          if (phase.is_value) {
            fill_value(source, 16 * half, value_base + phase.round * k.slots + 2 * j + half);
          } else {
            fill_score(source, 16 * half,
                       score_base + phase.round * k_sm90a_score_stages_per_round + stage);
          }
        }
      }
#pragma unroll
      for (int j = 0; j < k_ctas; ++j) entries[j] = next_entries[j];
      phase = next;
    }
    score_base += rounds * k_sm90a_score_stages_per_round;
    value_base += blocks;
  }

  __device__ static const std::uint8_t* shuffled(const std::uint8_t* pointer, int owner) {
    return reinterpret_cast<const std::uint8_t*>(
        __shfl_sync(k_all, reinterpret_cast<unsigned long long>(pointer), owner));
  }

  // Chunks * 128 bytes of 16 rows, and 64 more when tail: four (eight) rows an instruction.
  template <int Chunks>
  __device__ static void copy_rows(const std::uint8_t* data, int base, std::uint32_t to, int stride,
                                   bool tail) {
    const int lane = lane_now();
#pragma unroll
    for (int h = 0; h < 4; ++h) {
      const int r = 4 * h + (lane >> 3);
      const std::uint8_t* from = shuffled(data, base + r) + (lane & 7) * 16;
      const std::uint32_t at = to + r * stride + (lane & 7) * 16;
#pragma unroll
      for (int i = 0; i < Chunks; ++i) ptx::copy_async_16(at + 128 * i, from + 128 * i);
    }
    if (!tail) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = 8 * h + (lane >> 2);
      const int piece = 128 * Chunks + (lane & 3) * 16;
      ptx::copy_async_16(to + r * stride + piece, shuffled(data, base + r) + piece);
    }
  }

  // Some row is invalid, or only 8-byte aligned: row by row, invalid ones as zeros.
  __device__ static void copy_careful(const std::uint8_t* data, int base, std::uint32_t to,
                                      int stride, int bytes, unsigned valid, unsigned plain) {
    const int lane = lane_now();
#pragma unroll 1
    for (int r = 0; r < k_sm90a_stage_rows; ++r) {
      const std::uint8_t* from = shuffled(data, base + r);
      const std::uint32_t at = to + r * stride;
      if (((valid >> r) & 1) == 0) {
#pragma unroll 1
        for (int i = lane; i < stride / 16; i += 32)
          ptx::store_u128(at + i * 16, uint4{0, 0, 0, 0});
      } else if (((plain >> r) & 1) != 0) {
#pragma unroll 1
        for (int i = lane; i < bytes / 16; i += 32) ptx::copy_async_16(at + i * 16, from + i * 16);
      } else {
#pragma unroll 1
        for (int i = lane; i < bytes / 8; i += 32) ptx::copy_async_8(at + i * 8, from + i * 8, 8);
      }
    }
  }

  struct Stage {
    unsigned valid, plain;  // by row
  };
  __device__ static Stage votes(const RowAddress& source, int base) {
    const unsigned valid = __ballot_sync(k_all, source.is_valid);
    const unsigned plain = __ballot_sync(k_all, source.is_valid && source.is_16_aligned);
    return {(valid >> base) & 0xFFFFU, (plain >> base) & 0xFFFFU};
  }

  __device__ void fill_score(const RowAddress& source, int base, std::uint32_t stage) const {
    const StagePosition at = stage_position<k.score_stages>(stage);
    const Stage rows = votes(source, base);
    const std::uint32_t to = smem + k.score + at.slot * (k_sm90a_stage_rows * k_score_row);
    ptx::barrier_wait(smem + k.score_empty + 8 * at.slot, at.parity ^ 1U);
    const int own = lane_now() - base;  // the row whose address this lane has
    if (k_v4 && own >= 0 && own < 16 && source.is_valid)
      ptx::copy_async_8(to + own * k_score_row + k_v4_data_bytes, source.scales, 8);
    if (rows.plain == 0xFFFFU) {
      if constexpr (k_v4) {
        copy_rows<4>(source.data, base, to, k_score_row, true);
      } else {
        copy_rows<5>(source.data, base, to, k_score_row, false);
        if (own >= 0 && own < 16)
          ptx::copy_async_16(to + own * k_score_row + 640, source.data + 640);
      }
    } else if (rows.valid != 0) {
      copy_careful(source.data, base, to, k_score_row, k_v4 ? k_v4_data_bytes : k_v32_row_bytes,
                   rows.valid, rows.plain);
    }
    finish_stage(smem + k.score_full + 8 * at.slot, smem + k.valid + 4 * at.slot, rows.valid);
  }

  // The warp's 16 rows of a block.
  __device__ void fill_value(const RowAddress& source, int base, std::uint32_t block) const {
    const StagePosition at = stage_position<k.value_blocks>(block);
    const Stage rows = votes(source, base);
    const std::uint32_t to =
        smem + k.value + (at.slot * k_sm90a_block_rows + warp * k_sm90a_stage_rows) * k_value_row;
    const bool tail = k_v4 && rank == k_ctas - 1;
    const std::uint8_t* data = source.data + rank * (2 * k.tiles * 64);
    ptx::barrier_wait(smem + k.value_empty + 8 * at.slot, at.parity ^ 1U);
    if (rows.plain == 0xFFFFU) {
      copy_rows<k.tiles>(data, base, to, k_value_row, tail);
    } else {
      copy_careful(data, base, to, k_value_row, 2 * k.tiles * 64 + (tail ? 64 : 0), rows.valid,
                   rows.plain);
    }
    finish_stage(smem + k.value_full + 8 * at.slot, 0, 0);
  }

  // The copies' arrivals order no other store: lane 0's publishes the valid bits and the zeros.
  __device__ static void finish_stage(std::uint32_t full, std::uint32_t valid_at, unsigned valid) {
    ptx::barrier_arrive_on_copies(full);
    if (lane_now() == 0 && valid_at != 0) ptx::store_u32(valid_at, valid);
    __syncwarp();
    if (lane_now() == 0) ptx::barrier_arrive(full);
  }
};

}  // namespace splitwave::cuda::sm90a
