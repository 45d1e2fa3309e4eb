// The two matrix products of one tile, S = K q and O += P V, as register-blocked micro-kernels for
// the Highway target being compiled. Every element is one chain of multiply-adds in ascending order of
// the contracted index, whatever block it falls into: that is what makes a head's bits independent of
// head count, tile position and vector width. Included by decode_simd.cpp only, once a target.
#if defined(SPLITWAVE_KERNELS_CPU_PRODUCTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPLITWAVE_KERNELS_CPU_PRODUCTS_INL_H
#undef SPLITWAVE_KERNELS_CPU_PRODUCTS_INL_H
#else
#define SPLITWAVE_KERNELS_CPU_PRODUCTS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "kernels/cpu/decode_kernels.h"
#include "kernels/cpu/softmax_inl.h"

HWY_BEFORE_NAMESPACE();
namespace splitwave::cpu::HWY_NAMESPACE {

// Registers decide the blocks: 32 (AVX-512, NEON) hold 24 accumulators, 4 vectors of one operand and
// a broadcast; 16 (AVX2) hold 12, 2 and 1.
inline constexpr int k_block_vectors = HWY_TARGET == HWY_AVX2 ? 2 : 4;
inline constexpr int k_accumulators_max = HWY_TARGET == HWY_AVX2 ? 12 : 24;
// Heads of one group of q: the vectors of one S block.
inline constexpr int k_group_heads = k_block_vectors * k_lanes;
static_assert(k_group_heads % k_head_pad == 0 || k_head_pad % k_group_heads == 0,
              "a padded head block is whole groups, or one short group of whole vectors");

// KV rows of one S block of so many head vectors.
constexpr int ScoreRows(int vectors) { return std::min(12, k_accumulators_max / vectors); }
static_assert(12 <= k_tile_row_slack, "the last S block may run past row_count");

// S rows [0, kRows) of one head group over one panel. q: [64][kVectors * k_lanes]; k: rows of 64 dims.
template <int kVectors, int kRows>
HWY_INLINE void ScoreBlock(const float* HWY_RESTRICT q, const float* HWY_RESTRICT k,
                           float* HWY_RESTRICT s, int s_stride, bool is_first_panel) {
  const DF d;
  VF sum[kRows][kVectors];
#pragma GCC unroll 12
  for (int t = 0; t < kRows; ++t) {
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; ++n) {
      sum[t][n] = is_first_panel ? hn::Zero(d) : hn::Load(d, s + t * s_stride + n * k_lanes);
    }
  }
  for (int i = 0; i < k_panel_dims; ++i) {
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
  constexpr int k_rows = ScoreRows(kVectors);
  for (int t = 0; t < rows; t += k_rows) {
    ScoreBlock<kVectors, k_rows>(q, k + t * k_panel_dims, s + t * s_stride, s_stride,
                                 is_first_panel);
  }
}

HWY_INLINE void Scores(const TileTask& task) {
  const int panels = qk_dims(task.format) / k_panel_dims;
  const int panel_stride = task.tile_rows_capacity * k_panel_dims;
  for (int p = 0; p < panels; ++p) {
    const float* const k = task.tile + p * panel_stride;
    for (int h = 0; h < task.heads_padded; h += k_group_heads) {
      const float* const q = task.q + (p * task.heads_padded + h) * k_panel_dims;
      float* const s = task.scores + h;
      const int vectors = std::min(k_group_heads, task.heads_padded - h) / k_lanes;
      const auto score_panel = vectors == 1   ? ScorePanel<1>
                               : vectors == 2 ? ScorePanel<2>
                               : vectors == 3 ? ScorePanel<std::min(3, k_block_vectors)>
                                              : ScorePanel<k_block_vectors>;
      score_panel(q, k, s, task.heads_padded, task.row_count, p == 0);
    }
  }
}

// O rows [0, kHeads) x (kVectors * k_lanes) dims += P V over one tile.
template <int kHeads>
HWY_INLINE void ValueBlock(const float* HWY_RESTRICT p, int p_stride, const float* HWY_RESTRICT v,
                           int rows, const float* HWY_RESTRICT alpha, bool is_first,
                           float* HWY_RESTRICT o) {
  const DF d;
  VF sum[kHeads][k_block_vectors];
#pragma GCC unroll 6
  for (int h = 0; h < kHeads; ++h) {
    const VF factor = hn::Set(d, alpha[h]);
#pragma GCC unroll 4
    for (int n = 0; n < k_block_vectors; ++n) {
      sum[h][n] = is_first ? hn::Zero(d)
                           : hn::Mul(hn::Load(d, o + h * k_panel_dims + n * k_lanes), factor);
    }
  }
  for (int t = 0; t < rows; ++t) {
    VF vv[k_block_vectors];
#pragma GCC unroll 4
    for (int n = 0; n < k_block_vectors; ++n) {
      vv[n] = hn::Load(d, v + t * k_panel_dims + n * k_lanes);
    }
#pragma GCC unroll 6
    for (int h = 0; h < kHeads; ++h) {
      const VF weight = hn::Set(d, p[t * p_stride + h]);
#pragma GCC unroll 4
      for (int n = 0; n < k_block_vectors; ++n) sum[h][n] = hn::MulAdd(weight, vv[n], sum[h][n]);
    }
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
static_assert(k_value_heads == 6, "the switch below lists the rests of 6");

HWY_NOINLINE void ValuePanel(const TileTask& task, const float* v, float* o) {
  const auto block = [&]<int kHeads>(int h) {
    ValueBlock<kHeads>(task.scores + h, task.heads_padded, v, task.row_count, task.alpha + h,
                       task.is_first, o + h * k_panel_dims);
  };
  int h = 0;
  for (; h + k_value_heads <= task.heads; h += k_value_heads) {
    block.template operator()<k_value_heads>(h);
  }
  switch (task.heads - h) {
    case 1: block.template operator()<1>(h); break;
    case 2: block.template operator()<2>(h); break;
    case 3: block.template operator()<3>(h); break;
    case 4: block.template operator()<4>(h); break;
    case 5: block.template operator()<5>(h); break;
    default: break;
  }
}

HWY_INLINE void Values(const TileTask& task) {
  constexpr int k_block_dims = k_block_vectors * k_lanes;
  static_assert(k_panel_dims % k_block_dims == 0, "a panel is whole blocks");
  for (int p = 0; p < k_value_panels; ++p) {
    const float* const v = task.tile + p * task.tile_rows_capacity * k_panel_dims;
    float* const o = task.partial.o + p * task.heads * k_panel_dims;
    for (int i = 0; i < k_panel_dims; i += k_block_dims) ValuePanel(task, v + i, o + i);
  }
}

// q in the order that ScoreBlock reads: panel, head group, dim, head; pad heads are zero.
void PackQ(const std::uint16_t* q, std::int64_t head_stride, int heads, int heads_padded, int dims,
           float* packed) {
  for (int p = 0; p < dims / k_panel_dims; ++p) {
    for (int g = 0; g < heads_padded; g += k_group_heads) {
      const int width = std::min(k_group_heads, heads_padded - g);
      float* const group = packed + (p * heads_padded + g) * k_panel_dims;
      for (int h = 0; h < width; ++h) {
        const std::uint16_t* const from = q + (g + h) * head_stride + p * k_panel_dims;
        for (int i = 0; i < k_panel_dims; ++i) {
          group[i * width + h] = g + h < heads ? bf16_to_float(from[i]) : 0.0F;
        }
      }
    }
  }
}

}  // namespace splitwave::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
