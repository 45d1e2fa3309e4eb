// The QK role: scores of 16-token tiles, online softmax, P for the PV role, the row's statistics.
// Owns the score arithmetic:
//   Q is scaled per head by a power of two so that its largest element is near 2^15, then held in
//   f16: exact unless an element is 2^32 times smaller than the head's largest. K codes are exact
//   in f16. Each 64-dim group is summed by itself in fp32 and multiplied by the token's scale in
//   fp32, so any scale works. RoPE dims are bf16 on both sides. V3.2, whose value is one rounding
//   to bf16 of code * scale, multiplies bf16 by bf16 throughout. S = rope + sum over groups in
//   order of fma(scale, group sum, S);  score = S * factor(head), in log2 units; the largest score
//   of a tile becomes the reference before its exponentials are taken.
// A head's arithmetic does not know how many heads share the CTA.
#pragma once

#include "kernels/cuda/common/dequant.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/common/softmax.cuh"
#include "kernels/cuda/portable/roles.cuh"

namespace splitwave::cuda::portable {

inline constexpr int k_qk_named_barrier = 1;

template <class V>
struct ScoreWarp {
  static constexpr PortableConfig k = V::shape.config;
  static constexpr bool k_is_v4 = k.format == KvFormat::v4;
  static constexpr int k_n = k.block_heads;
  static constexpr int k_heads8 = k_n / 8;        // n-tiles
  static constexpr int k_columns = 2 * k_heads8;  // heads of a thread: 8 t + 2 c + i
  static constexpr int k_tile = V::shape.tile_rows;
  static constexpr int k_tiles16 = k_tile / 16;
  static constexpr int k_groups = V::shape.groups;
  static constexpr int k_nope_groups = k_groups - 1;
  static constexpr int k_row_bytes = V::shape.ring_row_bytes;
  static constexpr int k_rope_offset = k_is_v4 ? k_v4_rope_offset_bytes : k_v32_rope_offset_bytes;
  static constexpr int k_part = k.stage_rows / k.producer_warps;
  static constexpr int k_threads = 32 * k.qk_warps;
  // V4's K operand is the bare code; V3.2's is the value.
  static constexpr float k_code_scale = k_is_v4 ? k_code_f16_scale : 1.0F;

  struct TileScores {
    float s[k_heads8][4];
    bool valid[2];
    bool is_live;
    std::uint32_t low;  // the raw row of fragment row g; g + 8 is 8 rows on
  };
  // A token's scales: V4 8 e8m0 bytes, V3.2 four fp32. Read from the ring where they are needed.
  struct RowScales {
    uint2 bytes;
    float4 values;
  };

  const DecodeParams& p;
  Smem<V> smem;
  int warp;
  int lane;
  int g;
  int c;
  RingCursor<V> cursor;
  Turn items, tiles, chunks;
  bool is_first_tile = true;  // of the chunk

  // Starts a section whose addresses are its own.
  __device__ void forget_addresses() {
    smem.base = opaque(smem.base);
    lane = opaque(lane);
    g = lane >> 2;
    c = lane & 3;
  }

  // Sum over the tokens of each of this warp's 16-token tiles, of the column that the lane owns.
  float l[k.qk_tiles];

  __device__ ScoreWarp(const DecodeParams& params, Smem<V> s, int w, int ln)
      : p(params), smem(s), warp(w), lane(ln), g(ln >> 2), c(ln & 3) {}

  __device__ void run() {
    for (;;) {
      const ItemView<V> item = take_item<V>(smem, items);
      if (item.row() < 0) return;
      // Q of the previous item is read no more: every QK warp is past its last tile.
      synchronise();
      load_q(item);
      synchronise();
      attend(item);
      release_item<V>(smem, items, lane);
    }
  }

  __device__ void synchronise() const {
    if constexpr (k.qk_warps == 1) {
      __syncwarp();
    } else {
      ptx::named_barrier(k_qk_named_barrier, k_threads);
    }
  }

  // ---- Q ----------------------------------------------------------------------------------------
  // Eight heads a warp at a time: lane 4 h + c reads the dims of head h that fragment column c
  // needs. Matrix (group, 2 ks + half) holds, for each head, 8 elements: dims 16 c + 4 ks + 2 half
  // + i of the group at element 2 c + i (RoPE: 32 (ks / 2) + 8 c + 4 (ks % 2) + 2 half + i), which
  // is the order in which 16-byte loads of a raw row hand out K.
  //
  // The head's largest exponent must be known before anything is stored, so the nope groups wait in
  // registers; the RoPE group is read twice (V3.2's nine groups at once would not fit).
  __device__ void load_q(const ItemView<V>& item) {
    forget_addresses();
    for (int heads8 = warp; heads8 < k_heads8; heads8 += k.qk_warps) {
      const int head_local = heads8 * 8 + g;
      const int head = item.head_block() * k_n + head_local;
      const bool is_head = head < p.heads;
      const std::uint16_t* q =
          p.q + item.row() * p.q_row_stride + (is_head ? head : 0) * p.q_head_stride;
      const std::uint16_t* rope = q + 64 * k_nope_groups + 8 * c;
      q += 16 * c;
      Exponents exponents;
      exponents.see(load_8(rope, is_head));
      exponents.see(load_8(rope + 32, is_head));
      uint4 raw[k_nope_groups][2];
#pragma unroll
      for (int group = 0; group < k_nope_groups; ++group) {
        raw[group][0] = load_8(q + 64 * group, is_head);
        raw[group][1] = load_8(q + 64 * group + 8, is_head);
      }
#pragma unroll
      for (int group = 0; group < k_nope_groups; ++group) {
        exponents.see(raw[group][0]);
        exponents.see(raw[group][1]);
      }
      // Largest element -> [2^15, 2^16) (f16 ends at 65504; bf16's longest mantissa gives 65280).
      const std::uint32_t field = min(127U + 15U + 127U - exponents.largest(), 254U);
      const float scale = __uint_as_float(field << 23);
      const std::uint32_t to = smem.base + V::shape.smem.q + head_local * 16 + c * 4;
#pragma unroll
      for (int group = 0; group < k_nope_groups; ++group) {
        store_8<k_is_v4>(to, group, 0, raw[group][0], scale);
        store_8<k_is_v4>(to, group, 1, raw[group][1], scale);
      }
      store_8<false>(to, k_nope_groups, 0, load_8(rope, is_head), scale);
      store_8<false>(to, k_nope_groups, 1, load_8(rope + 32, is_head), scale);
      if (c == 0) {
        const std::uint32_t back = 254U - field;  // 2^(127 - field); 0: the subnormal 2^-127
        const float undo = __uint_as_float(back == 0 ? 0x00400000U : back << 23);
        const float per_code = p.softmax_scale * k_log2_e / k_code_scale;
        ptx::store_f32(smem.base + V::shape.smem.factor + 4 * head_local, per_code * undo);
      }
    }
  }

  // Masked in place: a shift would be shared with the conversion and double the registers.
  struct Exponents {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    __device__ void see(uint4 v) {
      low = max(max(max(low, v.x & 0x7F80U), max(v.y & 0x7F80U, v.z & 0x7F80U)), v.w & 0x7F80U);
      high = max(max(max(high, v.x & 0x7F800000U), max(v.y & 0x7F800000U, v.z & 0x7F800000U)),
                 v.w & 0x7F800000U);
    }
    // Over the four lanes of a head.
    __device__ std::uint32_t largest() const {
      std::uint32_t e = max(low << 16, high);
      e = max(e, __shfl_xor_sync(0xFFFFFFFFU, e, 1));
      e = max(e, __shfl_xor_sync(0xFFFFFFFFU, e, 2));
      return e >> 23;
    }
  };
  __device__ static uint4 load_8(const std::uint16_t* from, bool is_head) {
    return is_head ? __ldg(reinterpret_cast<const uint4*>(from)) : make_uint4(0, 0, 0, 0);
  }
  template <bool IsF16>
  __device__ static void store_8(std::uint32_t to, int group, int half, uint4 v, float scale) {
    const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float low = __fmul_rn(__uint_as_float(words[w] << 16), scale);
      const float high = __fmul_rn(__uint_as_float(words[w] & 0xFFFF0000U), scale);
      ptx::store_u32(
          to + ((group * 8 + half * 4 + w) * k_n) * 16,
          IsF16 ? pack_f16(low, high) : pack_bf16(low * k_code_scale, high * k_code_scale));
    }
  }

  // Read again for each tile: eight registers that need not live through the matrix products.
  __device__ void scale_scores(TileScores& tile, float (&top)[k_columns]) const {
#pragma unroll
    for (int t = 0; t < k_heads8; ++t) {
      const float2 f = ptx::load_f32x2(smem.base + V::shape.smem.factor + 4 * (8 * t + 2 * c));
      float(&s)[4] = tile.s[t];
      s[0] = tile.valid[0] ? __fmul_rn(s[0], f.x) : minus_infinity();
      s[1] = tile.valid[0] ? __fmul_rn(s[1], f.y) : minus_infinity();
      s[2] = tile.valid[1] ? __fmul_rn(s[2], f.x) : minus_infinity();
      s[3] = tile.valid[1] ? __fmul_rn(s[3], f.y) : minus_infinity();
      top[2 * t] = fmaxf(top[2 * t], fmaxf(s[0], s[2]));
      top[2 * t + 1] = fmaxf(top[2 * t + 1], fmaxf(s[1], s[3]));
    }
  }

  // ---- items and chunks
  // --------------------------------------------------------------------------
  __device__ void attend(const ItemView<V>& item) {
    // Bounds are read again for every chunk: see ItemView.
    for (int chunk = item.chunk_begin(); chunk < item.live_chunk_end(p); ++chunk) {
      reset();
      for (int at = 0; at < item.rows_of_chunk(p, chunk); at += k_tile) {
        score_tile(min(item.rows_of_chunk(p, chunk) - at, k_tile));
      }
      finish_chunk(item, chunk);
    }
    // Declared chunks beyond the row's length: empty partials, for the combine step alone.
    if (item.slot() >= 0 && !item.is_folded() && warp == 0 && lane < k_n) {
      for (int chunk = max(item.live_chunk_end(p), item.chunk_begin()); chunk < item.chunk_end();
           ++chunk) {
        store_ml(item.slot() + chunk - item.chunk_begin(), empty_partial());
      }
    }
  }

  __device__ void reset() {
    is_first_tile = true;
#pragma unroll
    for (int t = 0; t < k.qk_tiles; ++t) l[t] = 0.0F;
  }

  __device__ void store_ml(int slot, const Partial& partial) const {
    float2* to =
        reinterpret_cast<float2*>(p.partials.ml) + (static_cast<std::int64_t>(slot) * k_n + lane);
    *to = make_float2(partial.m, partial.l);
  }

  // ---- one tile
  // ----------------------------------------------------------------------------------
  __device__ void score_tile(int rows) {
    forget_addresses();
    TileScores tile[k.qk_tiles];
    float top[k_columns];
#pragma unroll
    for (int i = 0; i < k_columns; ++i) top[i] = minus_infinity();
#pragma unroll
    for (int t = 0; t < k.qk_tiles; ++t) {
      const int tile16 = warp * k.qk_tiles + t;
      tile[t].is_live = tile16 * 16 < rows;
      if (tile[t].is_live) {
        score_16(tile16, tile[t]);
        scale_scores(tile[t], top);
      }
    }
    forget_addresses();
    const int buffer = tiles.buffer();
    float m_old[k_columns];
    float m_new[k_columns];
    exchange_max(buffer, top, m_old, m_new);
    ptx::barrier_wait(smem.p_empty(buffer), tiles.empty_parity());
    write_alpha(buffer, m_old, m_new);
#pragma unroll
    for (int t = 0; t < k.qk_tiles; ++t) write_p(buffer, warp * k.qk_tiles + t, t, tile[t], m_new);
    is_first_tile = false;
    arrive_as_warp(smem.p_full(buffer), lane);
    ++tiles.count;
    cursor = cursor.ahead((rows + k.stage_rows - 1) / k.stage_rows);
  }

  __device__ void score_16(int tile16, TileScores& tile) {
    const RingCursor<V> at = cursor.ahead(tile16 * 16 / k.stage_rows);
    const int first = tile16 * 16 % k.stage_rows;
    ptx::barrier_wait(smem.ring_full(at.stage), at.parity);
    const int row0 = first + qk_row(g);
    const std::uint32_t masks = smem.base + V::shape.smem.valid + 4 * (at.stage * k.producer_warps);
    tile.valid[0] = (ptx::load_u32(masks + 4 * (row0 / k_part)) >> (row0 % k_part)) & 1U;
    tile.valid[1] =
        (ptx::load_u32(masks + 4 * ((row0 + 8) / k_part)) >> ((row0 + 8) % k_part)) & 1U;
    const std::uint32_t low = smem.stage(at.stage) + row0 * k_row_bytes;
    const std::uint32_t high = low + 8 * k_row_bytes;
    tile.low = low;
    const RowScales scales[2] = {load_scales(low), load_scales(high)};
#pragma unroll
    for (int t = 0; t < k_heads8; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) tile.s[t][i] = 0.0F;
    }
    add_rope(low, high, tile.s);
    std::uint32_t nan[2] = {0, 0};
    add_groups(low, high, scales, tile.s, nan);
    if constexpr (k_is_v4) {
      nan[0] |= has_nan_scale(scales[0].bytes.x) |
                has_nan_scale(scales[0].bytes.y & 0x00FFFFFFU);  // the 8th byte is a pad
      nan[1] |= has_nan_scale(scales[1].bytes.x) | has_nan_scale(scales[1].bytes.y & 0x00FFFFFFU);
    }
    if (k_is_v4 || !k_convert_keeps_nan) poison(nan, tile.s);
  }

  __device__ static RowScales load_scales(std::uint32_t row) {
    RowScales scales{};
    if constexpr (k_is_v4) {
      scales.bytes = ptx::load_u64(row + k_ring_scale_offset_bytes);
    } else {
      scales.values = as_float4(ptx::load_u128(row + k_v32_scale_offset_bytes));
    }
    return scales;
  }
  __device__ static float4 as_float4(uint4 v) {
    return {__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w)};
  }

  // A token with a NaN code or scale scores NaN for every head. The four lanes of a row each saw a
  // quarter of its bytes.
  __device__ void poison(std::uint32_t (&nan)[2], float (&s)[k_heads8][4]) const {
    if (__any_sync(0xFFFFFFFFU, (nan[0] | nan[1]) != 0)) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        nan[r] |= __shfl_xor_sync(0xFFFFFFFFU, nan[r], 1);
        nan[r] |= __shfl_xor_sync(0xFFFFFFFFU, nan[r], 2);
      }
#pragma unroll
      for (int t = 0; t < k_heads8; ++t) {
        if (nan[0] != 0) s[t][0] = s[t][1] = quiet_nan();
        if (nan[1] != 0) s[t][2] = s[t][3] = quiet_nan();
      }
    }
  }

  // The B fragments of k-step ks of a group: b[t][half].
  __device__ void load_q_fragments(int group, int ks, std::uint32_t (&b)[k_heads8][2]) const {
    const std::uint32_t from =
        smem.base + V::shape.smem.q + (group * 8 + 2 * ks) * (k_n * 16) + 16 * lane;
    if constexpr (k_heads8 == 2) {
      const uint4 v = ptx::load_matrix_x4(from);
      b[0][0] = v.x, b[1][0] = v.y, b[0][1] = v.z, b[1][1] = v.w;
    } else {
      static_assert(k_heads8 == 4);
      const uint4 v = ptx::load_matrix_x4(from);
      const uint4 w = ptx::load_matrix_x4(from + 512);
      b[0][0] = v.x, b[1][0] = v.y, b[2][0] = v.z, b[3][0] = v.w;
      b[0][1] = w.x, b[1][1] = w.y, b[2][1] = w.z, b[3][1] = w.w;
    }
  }

  // Two k-steps, ks and ks + 1, of eight heads come in one load.
  template <class Mma>
  __device__ void multiply_group(int group, const FragmentA (&a)[4], float (&d)[k_heads8][4],
                                 Mma mma) const {
    if constexpr (k_heads8 == 1) {
#pragma unroll
      for (int ks = 0; ks < 4; ks += 2) {
        const uint4 v = ptx::load_matrix_x4(smem.base + V::shape.smem.q +
                                            (group * 8 + 2 * ks) * (k_n * 16) + 16 * lane);
        mma(d[0], a[ks], v.x, v.y);
        mma(d[0], a[ks + 1], v.z, v.w);
      }
    } else {
#pragma unroll
      for (int ks = 0; ks < 4; ++ks) {
        std::uint32_t b[k_heads8][2];
        load_q_fragments(group, ks, b);
#pragma unroll
        for (int t = 0; t < k_heads8; ++t) mma(d[t], a[ks], b[t][0], b[t][1]);
      }
    }
  }

  __device__ void add_rope(std::uint32_t low, std::uint32_t high, float (&s)[k_heads8][4]) const {
    FragmentA a[4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint4 x = ptx::load_u128(low + k_rope_offset + 64 * half + 16 * c);
      const uint4 y = ptx::load_u128(high + k_rope_offset + 64 * half + 16 * c);
      a[2 * half] = {{x.x, y.x, x.y, y.y}};
      a[2 * half + 1] = {{x.z, y.z, x.w, y.w}};
    }
    multiply_group(k_nope_groups, a, s,
                   [](float(&d)[4], const FragmentA& f, std::uint32_t b0, std::uint32_t b1) {
                     mma_bf16(d, f, b0, b1);
                   });
  }

  // The unrolled loop keeps several groups in flight, which 32 heads have no registers for (and no
  // need: their four accumulators are independent chains).
  __device__ void add_groups(std::uint32_t low, std::uint32_t high, const RowScales (&scales)[2],
                             float (&s)[k_heads8][4], std::uint32_t (&nan)[2]) const {
    constexpr int unroll = k_heads8 == 4                                        ? 1
                           : k_heads8 == 2 && !(k_is_v4 && k_convert_keeps_nan) ? 2
                                                                                : k_nope_groups;
    uint4 x = ptx::load_u128(low + 16 * c);
    uint4 y = ptx::load_u128(high + 16 * c);
#pragma unroll unroll
    for (int group = 0; group < k_nope_groups; ++group) {
      FragmentA a[4];
      convert_group(x, y, a, nan);
      const float scale_low = group_scale(scales[0], group);
      const float scale_high = group_scale(scales[1], group);
      if (group + 1 < k_nope_groups) {
        x = ptx::load_u128(low + 64 * (group + 1) + 16 * c);
        y = ptx::load_u128(high + 64 * (group + 1) + 16 * c);
      }
      if constexpr (!k_is_v4) {
#pragma unroll
        for (int ks = 0; ks < 4; ++ks) {
          a[ks] = {{rounded_value(a[ks].r[0], scale_low), rounded_value(a[ks].r[1], scale_high),
                    rounded_value(a[ks].r[2], scale_low), rounded_value(a[ks].r[3], scale_high)}};
        }
        multiply_group(group, a, s,
                       [](float(&acc)[4], const FragmentA& f, std::uint32_t b0, std::uint32_t b1) {
                         mma_bf16(acc, f, b0, b1);
                       });
        continue;
      }
      float d[k_heads8][4] = {};
      multiply_group(group, a, d,
                     [](float(&acc)[4], const FragmentA& f, std::uint32_t b0, std::uint32_t b1) {
                       mma_f16(acc, f, b0, b1);
                     });
#pragma unroll
      for (int t = 0; t < k_heads8; ++t) {
        s[t][0] = __fmaf_rn(scale_low, d[t][0], s[t][0]);
        s[t][1] = __fmaf_rn(scale_low, d[t][1], s[t][1]);
        s[t][2] = __fmaf_rn(scale_high, d[t][2], s[t][2]);
        s[t][3] = __fmaf_rn(scale_high, d[t][3], s[t][3]);
      }
    }
  }

  __device__ static void convert_group(uint4 x, uint4 y, FragmentA (&a)[4],
                                       std::uint32_t (&nan)[2]) {
    if constexpr (!k_convert_keeps_nan) {
      nan[0] |= has_nan_code(x.x) | has_nan_code(x.y) | has_nan_code(x.z) | has_nan_code(x.w);
      nan[1] |= has_nan_code(y.x) | has_nan_code(y.y) | has_nan_code(y.z) | has_nan_code(y.w);
    }
    const std::uint32_t xs[4] = {x.x, x.y, x.z, x.w};
    const std::uint32_t ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
    for (int ks = 0; ks < 4; ++ks) {
      const uint2 xf = e4m3x4_to_f16(xs[ks]);
      const uint2 yf = e4m3x4_to_f16(ys[ks]);
      a[ks] = {{xf.x, yf.x, xf.y, yf.y}};
    }
  }

  // V3.2: one rounding to bf16 of code * scale, as its contract says. The f16 codes are exact.
  __device__ static std::uint32_t rounded_value(std::uint32_t codes, float scale) {
    const float2 v = f16x2_to_f32(codes);
    const float per_code = scale / k_code_f16_scale;
    return pack_bf16(__fmul_rn(v.x, per_code), __fmul_rn(v.y, per_code));
  }

  __device__ static float group_scale(const RowScales& scales, int group) {
    if constexpr (k_is_v4) {
      return e8m0_to_f32((group < 4 ? scales.bytes.x : scales.bytes.y), group % 4);
    } else {
      const float4& v = scales.values;
      return group < 4 ? (group < 2 ? v.x : v.y) : (group < 6 ? v.z : v.w);
    }
  }

  // ---- softmax
  // ----------------------------------------------------------------------------------- Reduces a
  // column over the eight lanes of equal c: pairs 16, 8, then 4 apart. While a lane has two or more
  // columns it hands half of them over, so that the number of shuffles is the number of columns and
  // not three times it. Afterwards lane (g, c) holds column_of(g). The pairing is the same for
  // every k_columns, which matters for sums.
  template <int Count, class Op>
  __device__ float reduce_columns(float (&v)[k_columns], int distance, Op op) const {
    if constexpr (Count > 1) {
      const bool upper = (lane & distance) != 0;
#pragma unroll
      for (int i = 0; i < Count / 2; ++i) {
        const float keep = upper ? v[Count / 2 + i] : v[i];
        const float give = upper ? v[i] : v[Count / 2 + i];
        v[i] = op(keep, __shfl_xor_sync(0xFFFFFFFFU, give, distance));
      }
      if (distance == 4) return v[0];
      return reduce_columns<Count / 2>(v, distance / 2, op);
    } else {
      for (int d = distance; d >= 4; d /= 2) v[0] = op(v[0], __shfl_xor_sync(0xFFFFFFFFU, v[0], d));
      return v[0];
    }
  }
  __device__ int column_of() const {
    if constexpr (k_columns == 8) return g;       // halved at 16, 8, 4: column = g's bits 2, 1, 0
    if constexpr (k_columns == 4) return g >> 1;  // halved at 16, 8
    return g >> 2;                                // halved at 16
  }
  __device__ bool owns_column() const {
    return k_columns == 8 || (k_columns == 4 && (g & 1) == 0) || (k_columns == 2 && (g & 3) == 0);
  }
  // v[column_of()] without indexing registers.
  __device__ float own_column(const float (&v)[k_columns]) const {
    const int column = column_of();
    float own = v[0];
#pragma unroll
    for (int i = 1; i < k_columns; ++i) own = column == i ? v[i] : own;
    return own;
  }
  __device__ static int head_of_column(int column, int c) {
    return 8 * (column / 2) + 2 * c + column % 2;
  }

  // Running maxima live in shared memory between tiles, two buffers in turn: warp 0 writes this
  // tile's after the barrier, everyone reads them after the next tile's.
  __device__ std::uint32_t running_max(int buffer, int head) const {
    return smem.base + V::shape.smem.max + 4 * ((2 * k.qk_warps + buffer) * k_n + head);
  }

  __device__ void exchange_max(int buffer, float (&top)[k_columns], float (&m_old)[k_columns],
                               float (&m_new)[k_columns]) {
    const std::uint32_t at = smem.base + V::shape.smem.max + buffer * (k.qk_warps * k_n * 4);
    const float mine =
        reduce_columns<k_columns>(top, 16, [](float a, float b) { return fmaxf(a, b); });
    if (owns_column()) {
      ptx::store_f32(at + 4 * (warp * k_n + head_of_column(column_of(), c)), mine);
    }
    synchronise();
    // The buffer is written again two tiles later, after another such barrier.
#pragma unroll
    for (int t = 0; t < k_heads8; ++t) {
      float2 best = {minus_infinity(), minus_infinity()};
      if (!is_first_tile) best = ptx::load_f32x2(running_max(buffer ^ 1, 8 * t + 2 * c));
      m_old[2 * t] = best.x;
      m_old[2 * t + 1] = best.y;
#pragma unroll
      for (int w = 0; w < k.qk_warps; ++w) {
        const float2 v = ptx::load_f32x2(at + 4 * (w * k_n + 8 * t + 2 * c));
        best.x = fmaxf(best.x, v.x);
        best.y = fmaxf(best.y, v.y);
      }
      m_new[2 * t] = best.x;
      m_new[2 * t + 1] = best.y;
    }
  }

  // Rescales this warp's sums and, once, publishes the factors to the PV role.
  __device__ void write_alpha(int buffer, const float (&m_old)[k_columns],
                              const float (&m_new)[k_columns]) {
    float alpha[k_columns];
#pragma unroll
    for (int i = 0; i < k_columns; ++i) {
      alpha[i] = rescale_factor(m_old[i], m_new[i]);
    }
    const float own = own_column(alpha);
#pragma unroll
    for (int t = 0; t < k.qk_tiles; ++t) l[t] = __fmul_rn(l[t], own);
    if (warp == 0 && g == 0) {
#pragma unroll
      for (int t = 0; t < k_heads8; ++t) {
        ptx::store_f32x2(smem.base + V::shape.smem.alpha + 4 * (buffer * k_n + 8 * t + 2 * c),
                         alpha[2 * t], alpha[2 * t + 1]);
        ptx::store_f32x2(running_max(buffer, 8 * t + 2 * c), m_new[2 * t], m_new[2 * t + 1]);
      }
    }
  }

  __device__ void write_p(int buffer, int tile16, int t16, const TileScores& tile,
                          const float (&m_new)[k_columns]) {
    if (!tile.is_live) return;
    const int row = tile16 * 16 + qk_row(g);
    float sum[k_columns];
#pragma unroll
    for (int t = 0; t < k_heads8; ++t) {
      float e[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        e[i] = tile.valid[i / 2] ? exp2_fast(__fsub_rn(tile.s[t][i], m_new[2 * t + i % 2])) : 0.0F;
      }
      sum[2 * t] = __fadd_rn(e[0], e[2]);
      sum[2 * t + 1] = __fadd_rn(e[1], e[3]);
      const std::uint32_t at = row * (k_n * 2) + 16 * p_chunk<V>(row, t) + 4 * c;
#pragma unroll
      for (int part = 0; part < p_parts(k.format); ++part) {
        const std::uint32_t pairs[2] = {pack_bf16(e[0], e[1]), pack_bf16(e[2], e[3])};
        const std::uint32_t to = p_buffer<V>(smem, buffer, part) + at;
        ptx::store_u32(to, pairs[0]);
        ptx::store_u32(to + 8 * (k_n * 2), pairs[1]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {  // what this term leaves for the next: exact in fp32
          const std::uint32_t pair = pairs[i / 2];
          e[i] = __fsub_rn(e[i], __uint_as_float(i % 2 == 0 ? pair << 16 : pair & 0xFFFF0000U));
        }
      }
    }
    l[t16] = __fadd_rn(l[t16], reduce_columns<k_columns>(
                                   sum, 16, [](float a, float b) { return __fadd_rn(a, b); }));
    if constexpr (k_is_v4) write_scales(buffer, tile16, tile.low);
  }

  // The tile's scale bytes, transposed for the PV role: lane (g, c) moves groups 2c and 2c + 1 of
  // its two rows. Token r of a tile stands at 4 ((r % 8) / 2) + 2 (r / 8) + r % 2, so that the four
  // tokens of a PV fragment are one 32-bit word.
  __device__ void write_scales(int buffer, int tile16, std::uint32_t low) const {
    const RowScales scales[2] = {load_scales(low), load_scales(low + 8 * k_row_bytes)};
    const int r = qk_row(g);
    const std::uint32_t at = smem.base + V::shape.smem.scale + (buffer * 8 + 2 * c) * k_tile +
                             tile16 * 16 + 4 * (r >> 1) + (r & 1);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const std::uint32_t word = c < 2 ? scales[row].bytes.x : scales[row].bytes.y;
      const std::uint32_t pair = word >> (16 * (c & 1));
      ptx::store_u8(at + 2 * row, pair);
      ptx::store_u8(at + 2 * row + k_tile, pair >> 8);
    }
  }

  // ---- the chunk's statistics
  // -------------------------------------------------------------------- Warp 0, lane = head: adds
  // the tiles' sums in order, folds into the row's running partial, and tells the PV role the
  // weights and, for a whole row, the denominator.
  __device__ void finish_chunk(const ItemView<V>& item, int chunk) {
    forget_addresses();
    const std::uint32_t sums = smem.base + V::shape.smem.sum;
    if (owns_column()) {
#pragma unroll
      for (int t = 0; t < k.qk_tiles; ++t) {
        ptx::store_f32(sums + 4 * ((warp * k.qk_tiles + t) * k_n + head_of_column(column_of(), c)),
                       l[t]);
      }
    }
    synchronise();
    if (warp == 0) {
      publish_chunk(item, chunk);
    }
    synchronise();  // sums may be written again
  }

  __device__ void publish_chunk(const ItemView<V>& item, int chunk) {
    const int buffer = chunks.buffer();
    const bool is_last = chunk + 1 == item.live_chunk_end(p);
    ptx::barrier_wait(smem.stats_empty(buffer), chunks.empty_parity());
    if (lane < k_n) {
      Partial partial = empty_partial();
      // Turn `tiles` is one past the chunk's last tile.
      if (!is_first_tile) partial.m = ptx::load_f32(running_max(tiles.buffer() ^ 1, lane));
#pragma unroll
      for (int t = 0; t < k_tiles16; ++t) {
        const float part = ptx::load_f32(smem.base + V::shape.smem.sum + 4 * (t * k_n + lane));
        partial.l = t == 0 ? part : __fadd_rn(partial.l, part);
      }
      const std::uint32_t fold = smem.base + V::shape.smem.running + 8 * lane;
      Merge step{partial, 0.0F, 1.0F};
      if (item.is_folded() && chunk > item.chunk_begin()) {
        const float2 before = ptx::load_f32x2(fold);
        step = merge({before.x, before.y}, partial);
      }
      const Partial running = step.merged;
      ptx::store_f32x2(fold, running.m, running.l);
      const int head = item.head_block() * k_n + lane;
      const float sink =
          p.sink != nullptr && head < p.heads ? __ldg(p.sink + head) : minus_infinity();
      const float inverse = inverse_denominator(running, sink);
      ptx::store_u128(smem.base + V::shape.smem.stats + 16 * (buffer * k_n + lane),
                      make_uint4(__float_as_uint(step.weight_a), __float_as_uint(step.weight_b),
                                 __float_as_uint(inverse), 0));
      if (item.slot() >= 0) {
        if (!item.is_folded()) store_ml(item.slot() + chunk - item.chunk_begin(), running);
        if (item.is_folded() && is_last) store_ml(item.slot(), running);
      } else if (is_last && p.lse != nullptr && head < p.heads) {
        p.lse[item.row() * p.lse_row_stride + head] = natural_lse(running);
      }
    }
    arrive_as_warp(smem.stats_full(buffer), lane);
    ++chunks.count;
  }
};

}  // namespace splitwave::cuda::portable
