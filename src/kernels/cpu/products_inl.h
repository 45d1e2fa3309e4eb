// The two matrix products of one tile, S = K q and O += P V, as register-blocked micro-kernels for
// the Highway target being compiled. Every element is one chain of multiply-adds in ascending order
// of the contracted index, whatever block it falls into: that is what makes a head's bits
// independent of head count, tile position and vector width. Included by decode_simd.cpp only, once
// a target.
#if defined(SPLITWAVE_KERNELS_CPU_PRODUCTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPLITWAVE_KERNELS_CPU_PRODUCTS_INL_H
#undef SPLITWAVE_KERNELS_CPU_PRODUCTS_INL_H
#else
#define SPLITWAVE_KERNELS_CPU_PRODUCTS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "kernels/cpu/decode_kernels.h"
#include "kernels/cpu/dequantize_inl.h"
#include "kernels/cpu/softmax_inl.h"

HWY_BEFORE_NAMESPACE();
namespace splitwave::cpu::HWY_NAMESPACE {

// Registers decide the blocks: 32 (AVX-512, NEON) hold 24 accumulators, 4 vectors of one operand
// and a broadcast; 16 (AVX2) hold 12, 2 and 1.
inline constexpr int k_block_vectors = HWY_TARGET == HWY_AVX2 ? 2 : 4;
inline constexpr int k_accumulators_max = HWY_TARGET == HWY_AVX2 ? 12 : 24;
// Heads of one group of q: the vectors of one S block.
inline constexpr int k_group_heads = k_block_vectors * k_lanes;
static_assert(k_group_heads % k_head_pad == 0 || k_head_pad % k_group_heads == 0,
              "a padded head block is whole groups, or one short group of whole vectors");

// Steps of the contracted index in one turn of a product's loop. More turns the loop body larger
// than what half a decoded-instruction cache holds, and costs where a sibling thread has the other
// half.
inline constexpr int k_unroll = 2;

// KV rows of one S block of so many head vectors.
constexpr int ScoreRows(int vectors) { return std::min(12, k_accumulators_max / vectors); }

// Calls block<n>(at) for consecutive pieces of [0, count): as many of kBlock as fit, then 8, 4,
// 2, 1.
template <int kBlock, class Block>
HWY_INLINE void ForBlocks(int count, const Block& block) {
  int at = 0;
  for (; at + kBlock <= count; at += kBlock) block.template operator()<kBlock>(at);
  if constexpr (kBlock > 8) {
    if (at + 8 <= count) {
      block.template operator()<8>(at);
      at += 8;
    }
  }
  if (at + 4 <= count) {
    block.template operator()<4>(at);
    at += 4;
  }
  if (at + 2 <= count) {
    block.template operator()<2>(at);
    at += 2;
  }
  if (at < count) block.template operator()<1>(at);
}

// S rows [0, kRows) of one head group over one panel. q: [64][kVectors * k_lanes]; k: rows of 64
// dims.
template <int kVectors, int kRows>
HWY_INLINE void ScoreBlock(const float* HWY_RESTRICT q, const float* HWY_RESTRICT k,
                           float* HWY_RESTRICT s, std::ptrdiff_t s_stride, bool is_first_panel) {
  const DF d;
  VF sum[kRows][kVectors];
#pragma GCC unroll 12
  for (int t = 0; t < kRows; ++t) {
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; ++n) {
      sum[t][n] = is_first_panel ? hn::Zero(d) : hn::Load(d, s + t * s_stride + n * k_lanes);
    }
  }
  static_assert(k_panel_dims % k_unroll == 0);
#pragma GCC unroll 1
  for (int at = 0; at < k_panel_dims; at += k_unroll) {
#pragma GCC unroll 2
    for (int i = at; i < at + k_unroll; ++i) {
      VF qv[kVectors];
#pragma GCC unroll 4
      for (int n = 0; n < kVectors; ++n) qv[n] = hn::Load(d, q + (i * kVectors + n) * k_lanes);
#pragma GCC unroll 12
      for (int t = 0; t < kRows; ++t) {
        const VF kv = hn::Set(d, k[t * k_panel_dims + i]);
#pragma GCC unroll 4
        for (int n = 0; n < kVectors; ++n) sum[t][n] = hn::MulAdd(qv[n], kv, sum[t][n]);
      }
    }
  }
#pragma GCC unroll 12
  for (int t = 0; t < kRows; ++t) {
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; ++n) {
      hn::Store(sum[t][n], d, s + t * s_stride + n * k_lanes);
    }
  }
}

template <int kVectors>
HWY_NOINLINE void ScorePanel(const float* q, const float* k, float* s, int s_stride, int rows,
                             bool is_first_panel) {
  ForBlocks<ScoreRows(kVectors)>(rows, [&]<int kRows>(int t) {
    ScoreBlock<kVectors, kRows>(q, k + t * k_panel_dims, s + std::ptrdiff_t{t} * s_stride, s_stride,
                                is_first_panel);
  });
}

// S = K q. Each panel of K is decoded just before it is used, while it lies in L1.
HWY_INLINE void Scores(const TileTask& task) {
  const int panels = qk_dims(task.format) / k_panel_dims;
  for (int p = 0; p < panels; ++p) {
    float* const k = task.tile + p * task.tile_rows_capacity * k_panel_dims;
    DequantizePanel(task, p, k);
    for (int h = 0; h < task.heads_padded; h += k_group_heads) {
      const float* const q = task.q + (p * task.heads_padded + h) * k_panel_dims;
      const int vectors = std::min(k_group_heads, task.heads_padded - h) / k_lanes;
      const auto score_panel = vectors == 1   ? ScorePanel<1>
                               : vectors == 2 ? ScorePanel<2>
                               : vectors == 3 ? ScorePanel<std::min(3, k_block_vectors)>
                                              : ScorePanel<k_block_vectors>;
      score_panel(q, k, task.scores + h, task.heads_padded, task.row_count, p == 0);
    }
  }
}

// sum += weights p[0..kHeads) times one row of V. p: the row's probabilities.
template <int kHeads>
HWY_INLINE void ValueStep(const float* HWY_RESTRICT p, const float* HWY_RESTRICT v,
                          VF (&sum)[kHeads][k_block_vectors]) {
  const DF d;
  VF vv[k_block_vectors];
#pragma GCC unroll 4
  for (int n = 0; n < k_block_vectors; ++n) vv[n] = hn::Load(d, v + n * k_lanes);
#pragma GCC unroll 6
  for (int h = 0; h < kHeads; ++h) {
    const VF weight = hn::Set(d, p[h]);
#pragma GCC unroll 4
    for (int n = 0; n < k_block_vectors; ++n) sum[h][n] = hn::MulAdd(weight, vv[n], sum[h][n]);
  }
}

// O rows [0, kHeads) x (k_block_vectors * k_lanes) dims += P V over one tile. later: a KV row that
// a later tile needs, prefetched along the way (a burst would wait for the fill buffers).
template <int kHeads>
HWY_INLINE void ValueBlock(const TileTask& task, int h0, const float* HWY_RESTRICT v,
                           float* HWY_RESTRICT o, PrefetchSteps later) {
  const DF d;
  const float* HWY_RESTRICT p = task.scores + h0;
  VF sum[kHeads][k_block_vectors];
#pragma GCC unroll 6
  for (int h = 0; h < kHeads; ++h) {
    const VF factor = hn::Set(d, task.alpha[h0 + h]);
#pragma GCC unroll 4
    for (int n = 0; n < k_block_vectors; ++n) {
      sum[h][n] = task.is_first ? hn::Zero(d)
                                : hn::Mul(hn::Load(d, o + h * k_panel_dims + n * k_lanes), factor);
    }
  }
  int t = 0;
#pragma GCC unroll 1
  for (; t + k_unroll <= task.row_count; t += k_unroll) {
    PrefetchToL2(later.at);
    later.at += later.step_bytes;
#pragma GCC unroll 2
    for (int u = 0; u < k_unroll; ++u) {
      ValueStep<kHeads>(p, v, sum);
      p += task.heads_padded;
      v += k_panel_dims;
    }
  }
  for (; t < task.row_count; ++t) {
    ValueStep<kHeads>(p, v, sum);
    p += task.heads_padded;
    v += k_panel_dims;
  }
#pragma GCC unroll 6
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 4
    for (int n = 0; n < k_block_vectors; ++n) {
      hn::Store(sum[h][n], d, o + h * k_panel_dims + n * k_lanes);
    }
  }
}

inline constexpr int k_value_heads = k_accumulators_max / k_block_vectors;
static_assert(k_value_heads == 6, "the unroll pragmas of ValueBlock");

HWY_NOINLINE void ValuePanel(const TileTask& task, const float* v, float* o, RowPrefetcher& later) {
  ForBlocks<k_value_heads>(task.heads, [&]<int kHeads>(int h) {
    ValueBlock<kHeads>(task, h, v, o + h * k_panel_dims, later.next_block());
  });
}

HWY_INLINE void Values(const TileTask& task) {
  constexpr int k_block_dims = k_block_vectors * k_lanes;
  static_assert(k_panel_dims % k_block_dims == 0, "a panel is whole blocks");
  const int head_steps = (task.heads + k_value_heads - 1) / k_value_heads;
  RowPrefetcher later(task, k_value_dims / k_block_dims * head_steps, k_unroll);
  for (int p = 0; p < k_value_panels; ++p) {
    const float* const v = task.tile + p * task.tile_rows_capacity * k_panel_dims;
    float* const o = task.partial.o + p * task.heads * k_panel_dims;
    for (int i = 0; i < k_panel_dims; i += k_block_dims) ValuePanel(task, v + i, o + i, later);
  }
}

#if HWY_TARGET == HWY_SCALAR
// Heads [h, h + 4) and dims [0, 8) of the group's q, one dim a row of `to`.
inline void PackQBlock(const std::uint16_t* const (&rows)[4], int width, float* to) {
  for (int i = 0; i < 8; ++i) {
    for (int h = 0; h < 4; ++h) {
      to[i * width + h] = rows[h] != nullptr ? bf16_to_float(rows[h][i]) : 0.0F;
    }
  }
}
#else
// As above, by a transpose of 4 x 4 pairs of dims: a 32-bit cell holds two bf16.
inline void PackQBlock(const std::uint16_t* const (&rows)[4], int width, float* to) {
  const hn::FixedTag<std::uint32_t, 4> d;
  const hn::FixedTag<std::uint64_t, 2> d64;
  const hn::FixedTag<float, 4> df;
  using V = hn::Vec<decltype(d)>;
  V a[4];
  for (int h = 0; h < 4; ++h) {
    a[h] = rows[h] == nullptr ? hn::Zero(d)
                              : hn::LoadU(d, reinterpret_cast<const std::uint32_t*>(rows[h]));
  }
  const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d, a[0], a[1]));
  const auto low23 = hn::BitCast(d64, hn::InterleaveLower(d, a[2], a[3]));
  const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(d, a[0], a[1]));
  const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(d, a[2], a[3]));
  const V pairs[4] = {hn::BitCast(d, hn::InterleaveLower(d64, low01, low23)),
                      hn::BitCast(d, hn::InterleaveUpper(d64, low01, low23)),
                      hn::BitCast(d, hn::InterleaveLower(d64, high01, high23)),
                      hn::BitCast(d, hn::InterleaveUpper(d64, high01, high23))};
  for (int i = 0; i < 4; ++i) {
    float* const even = to + 2 * i * width;
    hn::Store(hn::BitCast(df, hn::ShiftLeft<16>(pairs[i])), df, even);
    hn::Store(hn::BitCast(df, hn::And(pairs[i], hn::Set(d, 0xFFFF0000U))), df, even + width);
  }
}
#endif

// q in the order that ScoreBlock reads: panel, head group, dim, head; pad heads are zero.
inline void PackQ(const std::uint16_t* q, std::int64_t head_stride, int heads, int heads_padded,
                  int dims, float* packed) {
  for (int p = 0; p < dims / k_panel_dims; ++p) {
    for (int g = 0; g < heads_padded; g += k_group_heads) {
      const int width = std::min(k_group_heads, heads_padded - g);
      float* const group = packed + (p * heads_padded + g) * k_panel_dims;
      for (int h = 0; h < width; h += 4) {
        for (int i = 0; i < k_panel_dims; i += 8) {
          const std::uint16_t* rows[4] = {};
          for (int n = 0; n < 4 && g + h + n < heads; ++n) {
            rows[n] = q + (g + h + n) * head_stride + p * k_panel_dims + i;
          }
          PackQBlock(rows, width, group + i * width + h);
        }
      }
    }
  }
}

}  // namespace splitwave::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
