// The PV role: O^T += V^T P, the fold of chunks, the result. Owns the output. Warp w has dims
// [w * 512 / pv_warps, ...), in groups of 64 that share a scale; a thread ends with 8 consecutive
// dims of each of its heads.
//
// V's arithmetic: bf16(code * scale) times P in one bf16 term (V4) or two (V3.2, see p_parts);
// exact in V4, one rounding in V3.2. fp32 accumulation over 16 tokens at a time, in the order of
// the list.
#pragma once

#include "kernels/cuda/common/dequant.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/common/softmax.cuh"
#include "kernels/cuda/portable/roles.cuh"

namespace splitwave::cuda::portable {

template <class V>
struct ValueWarp {
  static constexpr PortableConfig k = V::shape.config;
  static constexpr bool k_is_v4 = k.format == KvFormat::v4;
  static constexpr int k_n = k.block_heads;
  static constexpr int k_heads8 = k_n / 8;
  static constexpr int k_tile = V::shape.tile_rows;
  static constexpr int k_row_bytes = V::shape.ring_row_bytes;
  static constexpr int k_groups = 8 / k.pv_warps;  // 64-dim groups of a warp
  static constexpr int k_steps_of_stage = k.stage_rows / 16;
  static_assert(k_groups * k.pv_warps == 8);

  const DecodeParams& p;
  Smem<V> smem;
  int warp;
  int lane;
  int g;
  int c;
  RingCursor<V> cursor;
  Turn items, tiles, chunks;

  // Starts a section whose addresses are its own (see opaque).
  __device__ void forget_addresses() {
    smem.base = opaque(smem.base);
    lane = opaque(lane);
    g = lane >> 2;
    c = lane & 3;
  }

  // o[group][m][t]: dims 8 g + 2 m (elements 0, 1: heads 8 t + 2 c, + 1) and 8 g + 2 m + 1 (2, 3).
  float o[k_groups][4][k_heads8][4];

  __device__ ValueWarp(const DecodeParams& params, Smem<V> s, int w, int ln)
      : p(params), smem(s), warp(w), lane(ln), g(ln >> 2), c(ln & 3) {}

  __device__ void run() {
    for (;;) {
      const ItemView<V> item = take_item<V>(smem, items);
      if (item.row() < 0) return;
      const int end = item.live_chunk_end(p);
      for (int chunk = item.chunk_begin(); chunk < end; ++chunk) {
        clear();
        const int rows = item.rows_of_chunk(p, chunk);
        for (int at = 0; at < rows; at += k_tile) accumulate_tile(min(rows - at, k_tile), at == 0);
        finish_chunk(item, chunk, chunk + 1 == end);
      }
      if (end > item.chunk_begin() && item.slot() >= 0 && p.partials.tickets != nullptr) {
        fold_if_last(item);
      }
      release_item<V>(smem, items, lane);
    }
  }

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < k_groups; ++i) {
#pragma unroll
      for (int m = 0; m < 4; ++m) {
#pragma unroll
        for (int t = 0; t < k_heads8; ++t) {
#pragma unroll
          for (int e = 0; e < 4; ++e) o[i][m][t][e] = 0.0F;
        }
      }
    }
  }

  // ---- one tile
  // ----------------------------------------------------------------------------------
  __device__ void accumulate_tile(int rows, bool is_first) {
    forget_addresses();
    const int buffer = tiles.buffer();
    ptx::barrier_wait(smem.p_full(buffer), tiles.full_parity());
    if (!is_first) rescale(buffer);
    if (rows == k_tile) {
#pragma unroll
      for (int stage = 0; stage < k_tile / k.stage_rows; ++stage) {
        const std::uint32_t raw = smem.stage(cursor.stage);
#pragma unroll
        for (int s = 0; s < k_steps_of_stage; ++s) {
          accumulate_16(buffer, stage * k_steps_of_stage + s, raw + s * (16 * k_row_bytes));
        }
        release_stage();
      }
    } else {
      for (int step = 0; step * 16 < rows; ++step) {
        const std::uint32_t raw =
            smem.stage(cursor.stage) + step % k_steps_of_stage * (16 * k_row_bytes);
        accumulate_16(buffer, step, raw);
        if ((step + 1) % k_steps_of_stage == 0 || (step + 1) * 16 >= rows) release_stage();
      }
    }
    arrive_as_warp(smem.p_empty(buffer), lane);
    ++tiles.count;
  }

  __device__ void release_stage() {
    arrive_as_warp(smem.ring_empty(cursor.stage), lane);
    cursor.advance();
  }

  // O is relative to the largest score so far. A factor of exactly 1 for every head of the warp
  // (most tiles) leaves every bit alone, so skipping is not a decision across heads.
  __device__ void rescale(int buffer) {
    float2 alpha[k_heads8];
    bool is_one = true;
#pragma unroll
    for (int t = 0; t < k_heads8; ++t) {
      alpha[t] =
          ptx::load_f32x2(smem.base + V::shape.smem.alpha + 4 * (buffer * k_n + 8 * t + 2 * c));
      is_one = is_one && alpha[t].x == 1.0F && alpha[t].y == 1.0F;
    }
    if (__all_sync(0xFFFFFFFFU, is_one)) return;
#pragma unroll
    for (int i = 0; i < k_groups; ++i) {
#pragma unroll
      for (int m = 0; m < 4; ++m) {
#pragma unroll
        for (int t = 0; t < k_heads8; ++t) {
          o[i][m][t][0] = __fmul_rn(o[i][m][t][0], alpha[t].x);
          o[i][m][t][1] = __fmul_rn(o[i][m][t][1], alpha[t].y);
          o[i][m][t][2] = __fmul_rn(o[i][m][t][2], alpha[t].x);
          o[i][m][t][3] = __fmul_rn(o[i][m][t][3], alpha[t].y);
        }
      }
    }
  }

  // Sixteen tokens: fragment rows 2c, 2c+1, 2c+8, 2c+9 are those tokens of the tile.
  __device__ void accumulate_16(int buffer, int step, std::uint32_t raw) {
    static_assert(k_groups == 1 || p_parts(k.format) == 1, "b holds one term at a time");
    std::uint32_t b[k_heads8][2];
    load_p(buffer, step, 0, b);
#pragma unroll
    for (int i = 0; i < k_groups; ++i) {
      const int group = warp * k_groups + i;
      FragmentA a[4];
      if (k_is_v4 && group == 7) {
        load_rope(raw, a);
      } else {
        load_codes(buffer, step, group, raw, a);
      }
#pragma unroll
      for (int part = 0; part < p_parts(k.format); ++part) {
        if (part > 0) load_p(buffer, step, part, b);
#pragma unroll
        for (int m = 0; m < 4; ++m) {
#pragma unroll
          for (int t = 0; t < k_heads8; ++t) {
            mma_bf16(o[i][m][t], a[m], b[t][0], b[t][1]);
          }
        }
      }
    }
  }

  __device__ void load_p(int buffer, int step, int part, std::uint32_t (&b)[k_heads8][2]) const {
    const std::uint32_t from = p_buffer<V>(smem, buffer, part);
    const int row = step * 16 + (lane & 15);
    if constexpr (k_heads8 == 1) {
      const uint2 v = ptx::load_matrix_x2_transposed(from + row * (k_n * 2));
      b[0][0] = v.x, b[0][1] = v.y;
    } else {
#pragma unroll
      for (int t = 0; t < k_heads8; t += 2) {
        const int chunk = p_chunk<V>(row, t + (lane >> 4));
        const uint4 v = ptx::load_matrix_x4_transposed(from + row * (k_n * 2) + 16 * chunk);
        b[t][0] = v.x, b[t][1] = v.y;
        b[t + 1][0] = v.z, b[t + 1][1] = v.w;
      }
    }
  }

  __device__ void load_codes(int buffer, int step, int group, std::uint32_t raw,
                             FragmentA (&a)[4]) const {
    const std::uint32_t from = raw + 2 * c * k_row_bytes + 64 * group + 8 * g;
    const uint2 t0 = ptx::load_u64(from);
    const uint2 t1 = ptx::load_u64(from + k_row_bytes);
    const uint2 t2 = ptx::load_u64(from + 8 * k_row_bytes);
    const uint2 t3 = ptx::load_u64(from + 9 * k_row_bytes);
    convert(t0.x, t1.x, t2.x, t3.x, a[0], a[1]);
    convert(t0.y, t1.y, t2.y, t3.y, a[2], a[3]);
    std::uint32_t scale01 = k_bf16x2_two_to_120;
    std::uint32_t scale23 = k_bf16x2_two_to_120;
    if constexpr (k_is_v4) {
      const std::uint32_t bytes = ptx::load_u32(smem.base + V::shape.smem.scale +
                                                (buffer * 8 + group) * k_tile + step * 16 + 4 * c);
      const std::uint32_t halves01 = __byte_perm(bytes, 0, 0x4140);
      const std::uint32_t halves23 = __byte_perm(bytes, 0, 0x4342);
      if (has_large_scale(bytes) != 0) {
        // 2^(120 + k) would pass bf16's range: normalise first, then multiply by 2^k.
        multiply(a, k_bf16x2_two_to_120, k_bf16x2_two_to_120);
        scale01 = halves01 * 0x80U;
        scale23 = halves23 * 0x80U;
      } else {
        scale01 = e8m0_pair_to_bf16_times_2_120(halves01);
        scale23 = e8m0_pair_to_bf16_times_2_120(halves23);
      }
    }
    multiply(a, scale01, scale23);
    if constexpr (!k_is_v4) round_values(raw, group, a);
  }

  // V3.2: the codes are bare; each value is one rounding to bf16 of code * scale.
  __device__ void round_values(std::uint32_t raw, int group, FragmentA (&a)[4]) const {
    const std::uint32_t from =
        raw + 2 * c * k_row_bytes + k_v32_scale_offset_bytes + 4 * (group / 2);
    const float s0 = ptx::load_f32(from);
    const float s1 = ptx::load_f32(from + k_row_bytes);
    const float s2 = ptx::load_f32(from + 8 * k_row_bytes);
    const float s3 = ptx::load_f32(from + 9 * k_row_bytes);
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      a[m].r[0] = rounded_pair(a[m].r[0], s0, s1);
      a[m].r[1] = rounded_pair(a[m].r[1], s0, s1);
      a[m].r[2] = rounded_pair(a[m].r[2], s2, s3);
      a[m].r[3] = rounded_pair(a[m].r[3], s2, s3);
    }
  }
  __device__ static std::uint32_t rounded_pair(std::uint32_t codes, float low, float high) {
    return pack_bf16(__fmul_rn(__uint_as_float(codes << 16), low),
                     __fmul_rn(__uint_as_float(codes & 0xFFFF0000U), high));
  }

  // Four dims of the four tokens: x holds dims 8g + 0..3 (or + 4..7), byte d = dim d.
  __device__ static void convert(std::uint32_t t0, std::uint32_t t1, std::uint32_t t2,
                                 std::uint32_t t3, FragmentA& first, FragmentA& second) {
    first.r[0] = e4m3_pair_to_bf16<0>(t0, t1);
    first.r[1] = e4m3_pair_to_bf16<1>(t0, t1);
    first.r[2] = e4m3_pair_to_bf16<0>(t2, t3);
    first.r[3] = e4m3_pair_to_bf16<1>(t2, t3);
    second.r[0] = e4m3_pair_to_bf16<2>(t0, t1);
    second.r[1] = e4m3_pair_to_bf16<3>(t0, t1);
    second.r[2] = e4m3_pair_to_bf16<2>(t2, t3);
    second.r[3] = e4m3_pair_to_bf16<3>(t2, t3);
  }

  __device__ static void multiply(FragmentA (&a)[4], std::uint32_t scale01, std::uint32_t scale23) {
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      a[m].r[0] = multiply_bf16x2(a[m].r[0], scale01);
      a[m].r[1] = multiply_bf16x2(a[m].r[1], scale01);
      a[m].r[2] = multiply_bf16x2(a[m].r[2], scale23);
      a[m].r[3] = multiply_bf16x2(a[m].r[3], scale23);
    }
  }

  // V4's last group: the 64 RoPE dims, bf16 as stored.
  __device__ void load_rope(std::uint32_t raw, FragmentA (&a)[4]) const {
    const std::uint32_t from = raw + 2 * c * k_row_bytes + k_v4_rope_offset_bytes + 16 * g;
    const uint4 t0 = ptx::load_u128(from);
    const uint4 t1 = ptx::load_u128(from + k_row_bytes);
    const uint4 t2 = ptx::load_u128(from + 8 * k_row_bytes);
    const uint4 t3 = ptx::load_u128(from + 9 * k_row_bytes);
    pair_up(t0.x, t1.x, t2.x, t3.x, a[0]);
    pair_up(t0.y, t1.y, t2.y, t3.y, a[1]);
    pair_up(t0.z, t1.z, t2.z, t3.z, a[2]);
    pair_up(t0.w, t1.w, t2.w, t3.w, a[3]);
  }
  __device__ static void pair_up(std::uint32_t t0, std::uint32_t t1, std::uint32_t t2,
                                 std::uint32_t t3, FragmentA& a) {
    a.r[0] = __byte_perm(t0, t1, 0x5410);
    a.r[1] = __byte_perm(t0, t1, 0x7632);
    a.r[2] = __byte_perm(t2, t3, 0x5410);
    a.r[3] = __byte_perm(t2, t3, 0x7632);
  }

  // ---- the end of a chunk
  // ------------------------------------------------------------------------
  struct HeadWeights {
    float previous[2];
    float chunk[2];
    float inverse[2];
  };

  __device__ void finish_chunk(const ItemView<V>& item, int chunk, bool is_last) {
    forget_addresses();
    const int buffer = chunks.buffer();
    ptx::barrier_wait(smem.stats_full(buffer), chunks.full_parity());
    const bool is_folded = item.is_folded();
    const bool has_previous = is_folded && chunk > item.chunk_begin();
    const int item_slot = item.slot();
    const bool writes_out = item_slot < 0 && is_last;
    // Where this item's fold lives between chunks: its partial, or the CTA's scratch.
    const int slot = item_slot < 0 ? p.partials.scratch_slot + static_cast<int>(blockIdx.x)
                     : is_folded   ? item_slot
                                   : item_slot + chunk - item.chunk_begin();
    const int head_first = item.head_block() * k_n;
    float* const partials = p.partials.o + static_cast<std::int64_t>(slot) * k_n * k_value_dims;
    std::uint16_t* const out = p.out + item.row() * p.out_row_stride;
#pragma unroll
    for (int t = 0; t < k_heads8; ++t) {
      HeadWeights w;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint4 v = ptx::load_u128(smem.base + V::shape.smem.stats +
                                       16 * (buffer * k_n + 8 * t + 2 * c + i));
        w.previous[i] = __uint_as_float(v.x);
        w.chunk[i] = __uint_as_float(v.y);
        w.inverse[i] = __uint_as_float(v.z);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int head_local = 8 * t + 2 * c + i;
        const int head = head_first + head_local;
        if (head >= p.heads) continue;
#pragma unroll
        for (int group = 0; group < k_groups; ++group) {
          const int dim = 64 * (warp * k_groups + group) + 8 * g;
          float v[8];
#pragma unroll
          for (int m = 0; m < 4; ++m) {
            v[2 * m] = o[group][m][t][i];
            v[2 * m + 1] = o[group][m][t][2 + i];
          }
          float* const partial = partials + head_local * k_value_dims + dim;
          if (has_previous) fold(partial, w.previous[i], w.chunk[i], v);
          if (writes_out) {
            store_out(out + head * p.out_head_stride + dim, v, w.inverse[i]);
          } else {
            store_partial(partial, v);
          }
        }
      }
    }
    arrive_as_warp(smem.stats_empty(buffer), lane);
    ++chunks.count;
  }

  // ---- the fold of a row's partials
  // -------------------------------------------------------------- Every PV warp owns its dims of
  // the result, so each has its own ticket: the warp that arrives last finds all partials stored
  // and folds them in chunk order with the combine step's functions. Who is last depends on time,
  // the result does not.
  __device__ void fold_if_last(const ItemView<V>& item) {
    const int piece = item.piece_chunks();
    const int chunks_live = max(1, (item.length_total() + p.chunk_rows - 1) / p.chunk_rows);
    const int pieces = (chunks_live + piece - 1) / piece;
    const int pair = item.row() * p.head_blocks + item.head_block();
    // This lane's stores, the other lanes' (ordered by __syncwarp) and the QK warp's m and l
    // (ordered by stats_full) are visible to the device before the ticket is drawn, and whoever
    // draws the last sees those of all the others.
    __syncwarp();
    std::uint32_t arrived = 0;
    if (lane == 0) {
      std::uint32_t* ticket = p.partials.tickets + pair * k_tickets_of_pair + warp;
      arrived = ptx::draw_ticket(ticket) + 1;
      if (arrived == static_cast<std::uint32_t>(pieces)) *ticket = 0;  // for the next launch
    }
    arrived = __shfl_sync(0xFFFFFFFFU, arrived, 0);
    if (arrived != static_cast<std::uint32_t>(pieces)) return;
    const int first = item.slot() - (item.is_folded() ? 0 : 1 + item.chunk_begin() - piece);
    fold_partials(item, first, max(1, 1 + chunks_live - piece));
  }

  // Requested at once: so many partials of two columns. Five would spill.
  static constexpr int k_partials_ahead = 4;
  static constexpr int k_columns_ahead = 2;

  struct FoldedColumn {
    Partial running = empty_partial();
    float sum[8] = {};
  };
  struct StoredColumn {
    float2 ml[k_partials_ahead];
    float4 low[k_partials_ahead];
    float4 high[k_partials_ahead];
  };

  // Columns 8 t + 2 c + i, as the lane stored them. Heads beyond the call's have partials of zeros
  // or none: their loads stay inside the workspace and are dropped.
  __device__ void fold_partials(const ItemView<V>& item, int first, int count) {
    forget_addresses();
#pragma unroll 1
    for (int t = 0; t < k_heads8; ++t) {
#pragma unroll
      for (int group = 0; group < k_groups; ++group) {
        const int dim = 64 * (warp * k_groups + group) + 8 * g;
        FoldedColumn column[k_columns_ahead];
        for (int base = 0; base < count; base += k_partials_ahead) {
          StoredColumn stored[k_columns_ahead];
#pragma unroll
          for (int i = 0; i < k_columns_ahead; ++i) {
            const std::int64_t at =
                static_cast<std::int64_t>(first + base) * k_n + 8 * t + 2 * c + i;
            load_column(at, dim, count - base, stored[i]);
          }
#pragma unroll
          for (int i = 0; i < k_columns_ahead; ++i) fold_column(stored[i], column[i]);
        }
#pragma unroll
        for (int i = 0; i < k_columns_ahead; ++i) {
          const int head = item.head_block() * k_n + 8 * t + 2 * c + i;
          if (head >= p.heads) continue;
          const float sink = p.sink != nullptr ? __ldg(p.sink + head) : minus_infinity();
          store_out(p.out + item.row() * p.out_row_stride + head * p.out_head_stride + dim,
                    column[i].sum, inverse_denominator(column[i].running, sink));
          if (dim == 0 && p.lse != nullptr) {
            p.lse[item.row() * p.lse_row_stride + head] = natural_lse(column[i].running);
          }
        }
      }
    }
  }

  // Eight dims of one head in the next partials. Other SMs wrote them during this launch; the last
  // ticket's acquire makes plain loads see them. Plain, so that the second half of a 32-byte sector
  // comes from L1: past it every sector would travel twice, and one SM's share of L2 bandwidth is
  // what the fold waits for.
  __device__ void load_column(std::int64_t at, int dim, int count, StoredColumn& stored) const {
#pragma unroll
    for (int i = 0; i < k_partials_ahead; ++i) {
      stored.ml[i] = make_float2(minus_infinity(), 0.0F);
      stored.low[i] = stored.high[i] = make_float4(0, 0, 0, 0);
      if (i < count) {
        const std::int64_t part = at + static_cast<std::int64_t>(i) * k_n;
        stored.ml[i] = __ldcg(reinterpret_cast<const float2*>(p.partials.ml) + part);
        const float* o_part = p.partials.o + part * k_value_dims + dim;
        stored.low[i] = *reinterpret_cast<const float4*>(o_part);
        stored.high[i] = *reinterpret_cast<const float4*>(o_part + 4);
      }
    }
  }

  __device__ static void fold_column(const StoredColumn& stored, FoldedColumn& column) {
#pragma unroll
    for (int i = 0; i < k_partials_ahead; ++i) {
      const Merge step = merge(column.running, {stored.ml[i].x, stored.ml[i].y});
      column.running = step.merged;
      const float v[8] = {stored.low[i].x,  stored.low[i].y,  stored.low[i].z,  stored.low[i].w,
                          stored.high[i].x, stored.high[i].y, stored.high[i].z, stored.high[i].w};
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        column.sum[j] = merge_value(step.weight_a, column.sum[j], step.weight_b, v[j]);
      }
    }
  }

  // The previous chunks' O was stored by this very thread.
  __device__ static void fold(const float* partial, float previous, float chunk, float (&v)[8]) {
    const float4 a = *reinterpret_cast<const float4*>(partial);
    const float4 b = *reinterpret_cast<const float4*>(partial + 4);
    const float before[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = merge_value(previous, before[j], chunk, v[j]);
  }

  __device__ static void store_partial(float* partial, const float (&v)[8]) {
    *reinterpret_cast<float4*>(partial) = make_float4(v[0], v[1], v[2], v[3]);
    *reinterpret_cast<float4*>(partial + 4) = make_float4(v[4], v[5], v[6], v[7]);
  }

  __device__ static void store_out(std::uint16_t* to, const float (&v)[8], float inverse) {
    uint4 packed;
    packed.x = pack_bf16(__fmul_rn(v[0], inverse), __fmul_rn(v[1], inverse));
    packed.y = pack_bf16(__fmul_rn(v[2], inverse), __fmul_rn(v[3], inverse));
    packed.z = pack_bf16(__fmul_rn(v[4], inverse), __fmul_rn(v[5], inverse));
    packed.w = pack_bf16(__fmul_rn(v[6], inverse), __fmul_rn(v[7], inverse));
    *reinterpret_cast<uint4*>(to) = packed;
  }
};

}  // namespace splitwave::cuda::portable
