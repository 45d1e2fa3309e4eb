// The math warps of a cluster kernel: scores, the exchange of maxima, P and sums, and the order of
// the phases. Owns that order and its barriers; the arithmetic is qk.cuh's, softmax.cuh's and
// cluster_pv.cuh's. Called by cluster_kernel.cuh. docs/kernels/sm90a.md draws the exchange.
//
// A round is 2C blocks, one a warpgroup. The order of a warpgroup is
//   S0 | P0 S1 V0 | P1 S2 V1 | ...      S: score a block, send its maxima to every CTA
//                                       P: all maxima of the round -> reference; P, sums and scales
//                                       to every CTA
//                                       V: add every block of the round to the own value dims
// so that the way of P to the others is covered by the next scores, and that of maxima by the
// values.
#pragma once

#include "kernels/cuda/sm90a/cluster_epilogue.cuh"
#include "kernels/cuda/sm90a/cluster_ptx.cuh"
#include "kernels/cuda/sm90a/cluster_pv.cuh"
#include "kernels/cuda/sm90a/qk.cuh"
#include "kernels/cuda/sm90a/query.cuh"
#include "kernels/cuda/sm90a/softmax.cuh"

namespace splitwave::cuda::sm90a {

template <class V>
struct ClusterWarp {
  static constexpr auto k = V::shape;
  static constexpr int k_n = k.config.block_heads;
  static constexpr int k_ctas = k.config.ctas;
  static constexpr int k_tiles = k.tiles;
  static constexpr int k_p_bytes = k_sm90a_block_rows * k_n * 2;
  static constexpr int k_scale_bytes = 1024 / k_ctas;
  // What arrives at a CTA for a block of another: P, sums, scales.
  static constexpr int k_block_bytes = k_p_bytes + 8 * k_n * 4 + k_scale_bytes;

  const DecodeParams& p;
  std::uint32_t smem;
  int group;                  // warpgroup
  int warp;                   // of it
  int rank;                   // of the CTA in its cluster
  std::uint32_t round;        // of the cluster's life
  std::uint32_t value_block;  // of the cluster's life: the next one
  std::uint32_t used;         // bit s: parity of slot s's uses so far
  float l, l_rounded;         // of the thread's head: sums of P, of P as rounded
  bool shifted;               // some token of the warp's tile was: see qk.cuh
  unsigned valid;             // tokens of the warp's tile
  uint2 scale_pair_v32;       // V3.2: two scales of token lane / 2 of the tile

  __device__ __forceinline__ int thread() const { return warp * 32 + lane_now(); }
  __device__ __forceinline__ bool keeps_a_head() const { return group == 0 && thread() < k_n; }
  __device__ __forceinline__ int own_slot() const { return k_ctas * group + rank; }
  __device__ __forceinline__ float scale_log2() const {
    return fmaxf(__fmul_rn(fabsf(p.softmax_scale), k_log2_e), 1.1754944e-38F);
  }
  __device__ __forceinline__ void sync_group() const { named_sync(k_bar_group + group, 128); }

  __device__ __forceinline__ void run() {
    SPLITWAVE_SM90A_STAMP(group, 0);
    if (group == 0 && thread() < 16)
      ptx::store_u128(smem + k.zero + thread() * 16, uint4{0, 0, 0, 0});
#pragma unroll 1
    for (int n = 0;; ++n) {
      if (!begin_item(n)) return;
      const Item item = item_of(n);
      const int end = live_chunk_end(p, item);
#pragma unroll 1
      for (int chunk = item.chunk_begin; chunk < end; ++chunk) {
        if (thread() < k_n)
          ptx::store_f32(smem + k.m + (group * k_n + thread()) * 4, minus_infinity());
        l = l_rounded = 0.0F;
        // Q is there; everyone has read what the chunk before left.
        named_sync(k_bar_math, 256);
        float o[k_tiles][k_n / 2];
        attend(uniform(blocks_of(rows_of_chunk(p, item, chunk))), o);
        ClusterEpilogue<V>{p, smem, group, warp, rank}.finish({item, chunk, chunk + 1 == end}, o, l,
                                                              l_rounded);
      }
      __syncwarp();
      if (lane_now() == 0) ptx::barrier_arrive(smem + k.info_empty + 8 * (n & 1));
    }
  }

  __device__ __forceinline__ bool begin_item(int n) const {
    const Item next = item_without_lengths(p, cluster_item_index<V>(n));
    if (next.row < 0) return false;
    const std::uint32_t sign = p.softmax_scale < 0.0F ? 0x80008000U : 0U;
    load_q<V>(p, smem, next, sign, group * 4 + warp, lane_now(), [&] {
      if (n > 0) named_sync(k_bar_math, 256);  // everyone is past the last item's scores
    });
    SPLITWAVE_SM90A_STAMP(group, 1);
    fence_async_proxy();
    ptx::barrier_wait(smem + k.info_full + 8 * (n & 1), (n >> 1) & 1);
    if (rank == 0 && keeps_a_head()) clear_absent_chunks(item_of(n));
    return true;
  }

  // Stored chunks past the row's end are empty partials; the combine step reads their (m, l).
  __device__ __forceinline__ void clear_absent_chunks(const Item& item) const {
    if (is_folded(item)) return;  // one partial, always written
    for (int chunk = max(live_chunk_end(p, item), item.chunk_begin); chunk < item.chunk_end;
         ++chunk) {
      const std::int64_t slot = item.slot + chunk - item.chunk_begin;
      *reinterpret_cast<float2*>(p.partials.ml + (slot * k_n + thread()) * 2) = {minus_infinity(),
                                                                                 0.0F};
    }
  }

  __device__ __forceinline__ Item item_of(int n) const {
    const std::uint32_t at = smem + k.info + 32 * (n & 1);
    const uint4 a = ptx::load_u128(at);
    const uint4 b = ptx::load_u128(at + 16);
    Item item;
    item.row = static_cast<int>(a.x);
    item.head_block = static_cast<int>(a.y);
    item.chunk_begin = static_cast<int>(a.z);
    item.chunk_end = static_cast<int>(a.w);
    item.slot = static_cast<int>(b.x);
    item.length_main = static_cast<int>(b.y);
    item.length_total = static_cast<int>(b.z);
    return item;
  }

  __device__ __forceinline__ void attend(int blocks, float (&o)[k_tiles][k_n / 2]) {
#pragma unroll
    for (int t = 0; t < k_tiles; ++t) {
#pragma unroll
      for (int i = 0; i < k_n / 2; ++i) o[t][i] = 0.0F;
    }
    if (blocks == 0) return;
    float s[k_n / 2];
    score(s, own_slot() < blocks);
#pragma unroll 1
    for (int base = 0;;) {
      const int present = min(blocks - base, k.slots);
      publish_p(s, present);
      const int next = base + k.slots;
      if (next < blocks) score_next(s, next + own_slot() < blocks);
      if (group == 1 && rank == k_ctas - 1 && k.config.format == KvFormat::v4) {
        add_round<k.config.format == KvFormat::v4>(o, present);
      } else {
        add_round<false>(o, present);
      }
      if (next >= blocks) break;
      base = next;
    }
  }

  __device__ __forceinline__ void score_next(float (&s)[k_n / 2], bool is_present) {
    ++round;
    score(s, is_present);
    --round;
  }

  // Scores of the warpgroup's block of this round; the block's maxima to every CTA. An absent block
  // is multiplied like any other, whatever lies there, and masked.
  __device__ __forceinline__ void score(float (&s)[k_n / 2], bool is_present) {
    const int lane = lane_now();
    const StagePosition at =
        stage_position<k.score_stages>(round * k_sm90a_score_stages_per_round + group * 4 + warp);
    const std::uint32_t rows =
        smem + k.score + at.slot * (k_sm90a_stage_rows * sm90a_row_bytes(k.config.format));
    const std::uint32_t table = smem + k.scale_q + (group * 4 + warp) * 256;
    ptx::barrier_wait(smem + k.score_full + 8 * at.slot, at.parity);
    SPLITWAVE_SM90A_STAMP(group, 8 + 8 * round);
    valid = uniform(static_cast<int>(ptx::load_u32(smem + k.valid + 4 * at.slot)));
    if (!is_present) valid = 0;
    const QkResult qk = qk_block<V>(s, rows, table, b_descriptor(smem + k.q, k_n),
                                    b_descriptor(smem + k.zero, 8), lane);
    if constexpr (k.config.format == KvFormat::v32) {
      // An invalid row's bytes may be stale where the whole stage is.
      const int token = token_of_row(lane >> 1);
      scale_pair_v32 = ((valid >> token) & 1) != 0
                           ? ptx::load_u64(rows + token * sm90a_row_bytes(KvFormat::v32) +
                                           k_v32_scale_offset_bytes + (lane & 1) * 8)
                           : uint2{0, 0};
    }
    __syncwarp();
    if (lane == 0) ptx::barrier_arrive(smem + k.score_empty + 8 * at.slot);
    SPLITWAVE_SM90A_STAMP(group, 8 + 8 * round + 1);
    shifted = qk.shifted && valid != 0;
    SoftmaxBlock block{smem, rows, group, warp, lane, 0, valid, shifted, false, 0.0F};
    ShiftFactors factors{1.0F, 1.0F};
    if (k.config.format == KvFormat::v4 && shifted) factors = shift_factors<V>(table, lane);
    fix_scores<V>(s, block, factors);

    float most[k_n / 4];
#pragma unroll
    for (int i = 0; i < k_n / 8; ++i) {
      most[2 * i] = fmaxf(s[4 * i], s[4 * i + 2]);
      most[2 * i + 1] = fmaxf(s[4 * i + 1], s[4 * i + 3]);
    }
    const int first = reduce_over_rows(most, lane, [](float x, float y) { return fmaxf(x, y); });
    const std::uint32_t warp_max = smem + k.warp_max + group * (4 * k_n * 4);
    store_kept<k_n>(warp_max + warp * (k_n * 4), most, first, lane & 3);
    if (lane == 0) {
      ptx::store_u32(smem + k.flags + (group * 8 + warp) * 4, qk.has_nan && valid != 0 ? 1 : 0);
    }
    sync_group();
    if (thread() < k_n) {
      float largest = minus_infinity();
#pragma unroll
      for (int w = 0; w < 4; ++w)
        largest = fmaxf(largest, ptx::load_f32(warp_max + (w * k_n + thread()) * 4));
      const std::uint32_t buffer = round & 1U;
      const std::uint32_t to =
          smem + k.max + ((buffer * k.slots + own_slot()) * k_n + thread()) * 4;
      const std::uint32_t barrier = smem + k.max_full + 8 * buffer;
#pragma unroll
      for (int r = 0; r < k_ctas; ++r)
        store_remote(map_to_rank(to, r), __float_as_uint(largest), map_to_rank(barrier, r));
    }
  }

  // One thread a head follows the reference through the round's blocks; see softmax.cuh for the
  // rule. Leaves the reference of the own block, the factor of every block and the blocks with a
  // factor.
  __device__ __forceinline__ std::uint32_t follow_reference() const {
    std::uint32_t moved = 0;
    const int head = thread();
    if (head < k_n) {
      const std::uint32_t maxima = smem + k.max + ((round & 1U) * k.slots * k_n + head) * 4;
      const float scale = scale_log2();
      float largest[k.slots];
#pragma unroll
      for (int s = 0; s < k.slots; ++s) largest[s] = ptx::load_f32(maxima + s * (k_n * 4));
      float m = ptx::load_f32(smem + k.m + (group * k_n + head) * 4);
      float own = m;
#pragma unroll
      for (int s = 0; s < k.slots; ++s) {
        const bool unset = m == minus_infinity();
        const bool exceeds =
            unset ? largest[s] > minus_infinity() : fmaf(largest[s], scale, -m) > k_lazy_bound_log2;
        const float m_new = exceeds ? largest[s] * scale : m;
        const float factor = exceeds && !unset ? exp2_fast(m - m_new) : 1.0F;
        ptx::store_f32(smem + k.factor + ((group * k.slots + s) * k_n + head) * 4, factor);
        moved |= factor != 1.0F ? 1U << s : 0U;
        m = m_new;
        if (s == own_slot()) own = m_new;
      }
      ptx::store_f32(smem + k.m + (group * k_n + head) * 4, m);
      ptx::store_f32(smem + k.m_use + (group * k_n + head) * 4, has_nan() ? quiet_nan()
                                                                : own == minus_infinity() ? 0.0F
                                                                                          : own);
    }
    return moved;
  }

  __device__ __forceinline__ bool has_nan() const {
    const uint4 f = ptx::load_u128(smem + k.flags + group * 32);
    return (f.x | f.y | f.z | f.w) != 0;
  }

  // P of the warpgroup's block against the reference, to every CTA; then its sums.
  __device__ __forceinline__ void publish_p(float (&s)[k_n / 2], int present) {
    const int lane = lane_now();
    const std::uint32_t buffer = round & 1U;
    if (group == 0 && thread() == 0) expect_blocks(present);
    ptx::barrier_wait(smem + k.max_full + 8 * buffer, (round >> 1) & 1U);
    if (group == 0 && thread() == 0)  // of the round after the next
      arrive_expecting(smem + k.max_full + 8 * buffer, k.slots * k_n * 4);
    SPLITWAVE_SM90A_STAMP(group, 8 + 8 * round + 2);
    sync_group();  // the factors of the round before have been used
    const std::uint32_t moved = __reduce_or_sync(0xFFFFFFFFU, follow_reference());
    if (lane == 0) ptx::store_u32(smem + k.flags + (group * 8 + 4 + warp) * 4, moved);
    sync_group();
    if (own_slot() >= present) return;

    const std::uint32_t table = smem + k.scale_q + (group * 4 + warp) * 256;
    const int slot = own_slot();
    const std::uint32_t p_block = smem + k.p + slot * k_p_bytes;
    const std::uint32_t full = smem + k.p_full + 8 * slot;
    std::uint32_t packed[k_n / 4];
    float sums[k_n / 4];
    probabilities<V>(s, smem + k.m_use + group * (k_n * 4), scale_log2(), lane & 3, packed, sums);
    float rounded[k_n / 4];
    rounded_sums<V>(packed, rounded);
    if (k.config.format == KvFormat::v4 && shifted) {
      const ShiftFactors factors = shift_factors<V>(table, lane);
      const std::uint32_t low = pack_bf16x2(factors.low, factors.low);
      const std::uint32_t high = pack_bf16x2(factors.high, factors.high);
#pragma unroll
      for (int i = 0; i < k_n / 8; ++i) {
        packed[2 * i] = multiply_bf16x2(packed[2 * i], low);
        packed[2 * i + 1] = multiply_bf16x2(packed[2 * i + 1], high);
      }
    }
    // Every CTA has added the block that had this slot before.
    ptx::barrier_wait(smem + k.p_free + 8 * group, ((used >> slot) & 1U) ^ 1U);
    store_p<V>(p_block, packed, warp, lane);
    store_scales(slot, table);
    fence_async_proxy();
    __syncwarp();
    if (lane < k_ctas - 1) {
      const int to = (rank + 1 + lane) % k_ctas;
      const std::uint32_t there = map_to_rank(full, to);
      const std::uint32_t part = p_block + warp * (32 * k_n);  // the warp's 16 tokens
      copy_to_remote(map_to_rank(part, to), part, 32 * k_n, there);
      constexpr int k_part = k_scale_bytes / 4;
      const std::uint32_t at = smem + k.scale_v + slot * k_scale_bytes + warp * k_part;
      copy_to_remote(map_to_rank(at, to),
                     smem + k.scale_s + group * 1024 + to * k_scale_bytes + warp * k_part, k_part,
                     there);
    }
    const auto add = [](float x, float y) { return x + y; };
    const std::uint32_t total = smem + k.total + (slot * 8 + warp) * (k_n * 4);
    int first = reduce_over_rows(sums, lane, add);
    send_sums(total, sums, first, full);
    first = reduce_over_rows(rounded, lane, add);
    send_sums(total + 4 * k_n * 4, rounded, first, full);
    __syncwarp();
    if (lane == 0) ptx::barrier_arrive(full);
    SPLITWAVE_SM90A_STAMP(group, 8 + 8 * round + 3);
  }

  // The scales of the warp's tile for PV, by destination: the CTA's own part into place, the
  // others' to be copied.
  __device__ __forceinline__ void store_scales(int slot, std::uint32_t table) const {
    const int lane = lane_now();
    const int row = 16 * warp + (lane >> 1);
    const auto to = [&](int part) {
      return part == rank ? smem + k.scale_v + slot * k_scale_bytes
                          : smem + k.scale_s + group * 1024 + part * k_scale_bytes;
    };
    if constexpr (k.config.format == KvFormat::v4) {
      const uint2 four = ptx::load_u64(table + (lane >> 1) * 16 + (lane & 1) * 8);
      const std::uint32_t half[4] = {four.x, four.x >> 16, four.y, four.y >> 16};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int g = 4 * (lane & 1) + i;
        const std::uint32_t at = (row >> 1) * (8 * k_tiles) + g % (2 * k_tiles) * 4 + (row & 1) * 2;
        store_u16(to(g / (2 * k_tiles)) + at, half[i]);
      }
    } else {
      const uint2 two = scale_pair_v32;
      const int g = 2 * (lane & 1);
      if constexpr (k_ctas == 2) {
        store_u64(to(g / 2) + row * 8, two.x, two.y);
      } else {
        ptx::store_u32(to(g) + row * 4, two.x);
        ptx::store_u32(to(g + 1) + row * 4, two.y);
      }
    }
  }

  // The lane's columns of a warp's sums, to the same place of every CTA.
  __device__ __forceinline__ void send_sums(std::uint32_t to, const float (&sums)[k_n / 4],
                                            int first, std::uint32_t barrier) const {
    const std::uint32_t at = to + (8 * (first >> 1) + 2 * (lane_now() & 3) + (first & 1)) * 4;
    // With fewer columns than rows of lanes several lanes hold the same one.
    if (k_n / 4 < 8 && (lane_now() >> 2) % (8 / (k_n / 4 < 8 ? k_n / 4 : 8)) != 0) return;
#pragma unroll
    for (int i = 0; i < k_kept_columns<k_n>; ++i) {
      ptx::store_f32(at + 4 * i, sums[i]);
#pragma unroll
      for (int r = 1; r < k_ctas; ++r) {
        const int there = (rank + r) % k_ctas;
        store_remote(map_to_rank(at + 4 * i, there), __float_as_uint(sums[i]),
                     map_to_rank(barrier, there));
      }
    }
  }

  // The blocks of other CTAs that this round brings.
  __device__ __forceinline__ void expect_blocks(int present) const {
#pragma unroll 1
    for (int s = 0; s < present; ++s) {
      if (s % k_ctas != rank) arrive_expecting(smem + k.p_full + 8 * s, k_block_bytes);
    }
  }

  // Adds the round's blocks, in list order.
  template <bool HasRope>
  __device__ __forceinline__ void add_round(float (&o)[k_tiles][k_n / 2], int present) {
    const ValueWarp<V> values{smem, group, warp};
    const uint4 m = ptx::load_u128(smem + k.flags + group * 32 + 16);
    const std::uint32_t moved = m.x | m.y | m.z | m.w;
    ValueRaw<V> raw;
    StagePosition at = stage_position<k.value_blocks>(value_block);
    values.template load<HasRope>(raw, at);
#pragma unroll 1
    for (int slot = 0; slot < present; ++slot) {
      const std::uint64_t p_block = b_descriptor(smem + k.p + slot * k_p_bytes, k_n);
      const std::uint32_t scales = smem + k.scale_v + slot * k_scale_bytes;
      const std::uint32_t factors = smem + k.factor + (group * k.slots + slot) * (k_n * 4);
      ptx::barrier_wait(smem + k.p_full + 8 * slot, (used >> slot) & 1U);
      SPLITWAVE_SM90A_STAMP(group, 8 + 8 * round + 4);
      if (((moved >> slot) & 1U) != 0) values.rescale(o, factors);
#pragma unroll
      for (int t = 0; t < k_tiles; ++t) pin_registers(o[t]);
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        std::uint32_t a[k_tiles][4];
        values.template operands<HasRope>(a, raw, values.scales_of(scales, s), s);
        wgmma_fence();
#pragma unroll
        for (int t = 0; t < k_tiles; ++t)
          wgmma<k_n, false>(o[t], a[t], p_block + static_cast<std::uint64_t>(s * 2 * k_n), true);
        wgmma_commit();
      }
      __syncwarp();
      if (lane_now() == 0) ptx::barrier_arrive(smem + k.value_empty + 8 * at.slot);
      ++at.slot;
      if (at.slot == k.value_blocks) at = {0, at.parity ^ 1U};
      if (slot + 1 < present) values.template load<HasRope>(raw, at);
      if (keeps_a_head()) add_sums(slot, factors);
      wgmma_wait<0>();
#pragma unroll
      for (int t = 0; t < k_tiles; ++t) pin_registers(o[t]);
      __syncwarp();
      if (lane_now() == 0)
        arrive_remote(map_to_rank(smem + k.p_free + 8 * (slot / k_ctas), slot % k_ctas));
    }
    used ^= (1U << present) - 1;
    value_block += present;
    SPLITWAVE_SM90A_STAMP(group, 8 + 8 * round + 5);
    ++round;
  }

  // The thread's head: l = l * factor + the block's sum; of P and of P as rounded.
  __device__ __forceinline__ void add_sums(int slot, std::uint32_t factors) {
    const float factor = ptx::load_f32(factors + thread() * 4);
    const auto total = [&](int which) {
      const std::uint32_t from = smem + k.total + ((slot * 8 + which * 4) * k_n + thread()) * 4;
      return __fadd_rn(
          __fadd_rn(ptx::load_f32(from), ptx::load_f32(from + k_n * 4)),
          __fadd_rn(ptx::load_f32(from + 2 * k_n * 4), ptx::load_f32(from + 3 * k_n * 4)));
    };
    l = __fmaf_rn(l, factor, total(0));
    l_rounded = __fmaf_rn(l_rounded, factor, total(1));
  }
};

}  // namespace splitwave::cuda::sm90a
