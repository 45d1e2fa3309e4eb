// The bf16 decode kernel: both products by a dot of bf16 pairs accumulated in fp32 (vdpbf16ps),
// twice the multiply-adds an instruction. Owns the pair layouts and the micro-kernels; rows are
// staged, decoded and exponentiated by the fp32 AVX-512 table. A template over the dot, so that the
// same code runs with vdpbf16ps (decode_avx512bf16.cpp) and with a software model of it (the
// tests), on any processor with AVX-512. Included by those two only; needs AVX-512 F, BW, VL and
// DQ.
//
// q       panel -> group of up to 64 heads -> [32 dim pairs][heads], a 32-bit pair a cell
// tile    K: panel -> [tile_rows_capacity][64] bf16, then V: panel -> [row pairs][64 dims], a
// 32-bit
//         pair (even row low, odd row high) a cell
// scores  fp32 [rows][heads_padded], then in place the probabilities as pairs [row
// pairs][heads_padded]
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/decode_kernels.h"

namespace splitwave::cpu::bf16 {

inline constexpr int k_lanes = 16;
inline constexpr int k_group_vectors = 4;
inline constexpr int k_group_heads = k_lanes * k_group_vectors;
inline constexpr int k_pairs = k_panel_dims / 2;
inline constexpr int k_block = 6;  // rows of S, heads of O: 24 accumulators, 4 vectors, 1 broadcast

// Dot::add(sum, a, b): sum + a.high * b.high + a.low * b.low in each 32-bit lane.
template <class Dot>
struct Kernels {
  static __m512i Broadcast(const std::uint32_t* pair) {
    return _mm512_set1_epi32(static_cast<int>(*pair));
  }

  static void PackQ(const std::uint16_t* q, std::int64_t head_stride, int heads, int heads_padded,
                    int dims, float* packed) {
    auto* const cells = reinterpret_cast<std::uint32_t*>(packed);
    for (int p = 0; p < dims / k_panel_dims; ++p) {
      for (int g = 0; g < heads_padded; g += k_group_heads) {
        const int width = std::min(k_group_heads, heads_padded - g);
        std::uint32_t* const group = cells + (std::ptrdiff_t{p} * heads_padded + g) * k_pairs;
        for (int h = 0; h < width; ++h) {
          const std::uint16_t* const from = q + (g + h) * head_stride + p * k_panel_dims;
          for (int i = 0; i < k_pairs; ++i) {
            std::uint32_t pair = 0;
            if (g + h < heads) std::memcpy(&pair, from + 2 * i, sizeof pair);
            group[i * width + h] = pair;
          }
        }
      }
    }
  }

  // Decoded values are bf16 values: their upper halves are exact.
  static void StorePanel(const float* panel, int rows, std::uint16_t* k, std::uint32_t* v) {
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
    for (int t = 0; t < rows; t += 2) {
      const bool has_odd = t + 1 < rows;
      for (int i = 0; i < k_panel_dims; i += k_lanes) {
        const float* const at = panel + t * k_panel_dims + i;
        const __m512i even = _mm512_srli_epi32(_mm512_castps_si512(_mm512_load_ps(at)), 16);
        __m512i odd = _mm512_setzero_si512();  // a last row without partner meets weight 0
        if (has_odd) odd = _mm512_castps_si512(_mm512_load_ps(at + k_panel_dims));
        std::uint16_t* const to = k + t * k_panel_dims + i;
        _mm256_store_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(even));
        if (has_odd) {
          _mm256_store_si256(reinterpret_cast<__m256i*>(to + k_panel_dims),
                             _mm512_cvtepi32_epi16(_mm512_srli_epi32(odd, 16)));
        }
        if (v != nullptr) {
          _mm512_store_si512(v + (t / 2) * k_panel_dims + i,
                             _mm512_or_si512(even, _mm512_and_si512(odd, high)));
        }
      }
    }
  }

  template <int kVectors, int kRows>
  static void ScoreBlock(const std::uint32_t* q, const std::uint16_t* k, float* s,
                         std::ptrdiff_t s_stride, bool is_first_panel) {
    __m512 sum[kRows][kVectors];
#pragma GCC unroll 12
    for (int t = 0; t < kRows; ++t) {
#pragma GCC unroll 4
      for (int n = 0; n < kVectors; ++n) {
        sum[t][n] = is_first_panel ? _mm512_setzero_ps()
                                   : _mm512_load_ps(s + t * s_stride + n * k_lanes);
      }
    }
    for (int i = 0; i < k_pairs; ++i) {
      __m512i qv[kVectors];
#pragma GCC unroll 4
      for (int n = 0; n < kVectors; ++n) {
        qv[n] = _mm512_load_si512(q + (i * kVectors + n) * k_lanes);
      }
#pragma GCC unroll 12
      for (int t = 0; t < kRows; ++t) {
        std::uint32_t pair = 0;
        std::memcpy(&pair, k + t * k_panel_dims + 2 * i, sizeof pair);
        const __m512i kv = Broadcast(&pair);
#pragma GCC unroll 4
        for (int n = 0; n < kVectors; ++n) sum[t][n] = Dot::add(sum[t][n], qv[n], kv);
      }
    }
#pragma GCC unroll 12
    for (int t = 0; t < kRows; ++t) {
#pragma GCC unroll 4
      for (int n = 0; n < kVectors; ++n) {
        _mm512_store_ps(s + t * s_stride + n * k_lanes, sum[t][n]);
      }
    }
  }

  // Pieces of kBlock, then of 1: rests are the last tile's only.
  template <int kBlock, class Block>
  static void ForBlocks(int count, const Block& block) {
    int at = 0;
    for (; at + kBlock <= count; at += kBlock) block.template operator()<kBlock>(at);
    for (; at + 2 <= count; at += 2) block.template operator()<2>(at);
    if (at < count) block.template operator()<1>(at);
  }

  template <int kVectors>
  static void ScorePanel(const std::uint32_t* q, const std::uint16_t* k, float* s, int s_stride,
                         int rows, bool is_first_panel) {
    constexpr int k_rows = std::min(12, 24 / kVectors);
    ForBlocks<k_rows>(rows, [&]<int kRows>(int t) {
      ScoreBlock<kVectors, kRows>(q, k + t * k_panel_dims, s + std::ptrdiff_t{t} * s_stride,
                                  s_stride, is_first_panel);
    });
  }

  static std::uint16_t* KPanel(const TileTask& task, int p) {
    return reinterpret_cast<std::uint16_t*>(task.tile) +
           std::ptrdiff_t{p} * task.tile_rows_capacity * k_panel_dims;
  }
  static std::uint32_t* VPanel(const TileTask& task, int p) {
    const int panels = qk_dims(task.format) / k_panel_dims;
    auto* const start = reinterpret_cast<std::uint32_t*>(KPanel(task, panels));
    return start + std::ptrdiff_t{p} * (task.tile_rows_capacity / 2) * k_panel_dims;
  }

  static void Scores(const TileTask& task, const DecodeKernels& fp32) {
    const int panels = qk_dims(task.format) / k_panel_dims;
    for (int p = 0; p < panels; ++p) {
      fp32.dequantize_panel(task, p, task.panel);
      std::uint16_t* const k = KPanel(task, p);
      StorePanel(task.panel, task.row_count, k, p < k_value_panels ? VPanel(task, p) : nullptr);
      for (int h = 0; h < task.heads_padded; h += k_group_heads) {
        const auto* const q = reinterpret_cast<const std::uint32_t*>(task.q) +
                              (std::ptrdiff_t{p} * task.heads_padded + h) * k_pairs;
        const int vectors = std::min(k_group_heads, task.heads_padded - h) / k_lanes;
        const auto score_panel = vectors == 1   ? ScorePanel<1>
                                 : vectors == 2 ? ScorePanel<2>
                                 : vectors == 3 ? ScorePanel<3>
                                                : ScorePanel<4>;
        score_panel(q, k, task.scores + h, task.heads_padded, task.row_count, p == 0);
      }
    }
  }

  // fp32 bits rounded to bf16 in the upper half, nearest even; NaN stays NaN (probabilities have no
  // payload worth keeping).
  static __m512i Rounded(__m512 value) {
    const __m512i bits = _mm512_castps_si512(value);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    return _mm512_mask_mov_epi32(up, is_nan, _mm512_set1_epi32(0x7FC00000));
  }

  // Rows 2 i and 2 i + 1 become row i of pairs: written behind where the rows are read.
  static void PackProbabilities(const TileTask& task) {
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
    for (int t = 0; t < task.row_count; t += 2) {
      const float* const even = task.scores + std::ptrdiff_t{t} * task.heads_padded;
      const bool has_odd = t + 1 < task.row_count;
      auto* const to = reinterpret_cast<std::uint32_t*>(task.scores) +
                       std::ptrdiff_t{t / 2} * task.heads_padded;
      for (int h = 0; h < task.heads_padded; h += k_lanes) {
        const __m512i low = _mm512_srli_epi32(Rounded(_mm512_load_ps(even + h)), 16);
        __m512i odd = _mm512_setzero_si512();
        if (has_odd) odd = Rounded(_mm512_load_ps(even + task.heads_padded + h));
        _mm512_store_si512(to + h, _mm512_or_si512(low, _mm512_and_si512(odd, high)));
      }
    }
  }

  template <int kHeads>
  static void ValueBlock(const TileTask& task, int h0, const std::uint32_t* v, float* o) {
    const auto* p = reinterpret_cast<const std::uint32_t*>(task.scores) + h0;
    __m512 sum[kHeads][k_group_vectors];
#pragma GCC unroll 6
    for (int h = 0; h < kHeads; ++h) {
      const __m512 factor = _mm512_set1_ps(task.alpha[h0 + h]);
#pragma GCC unroll 4
      for (int n = 0; n < k_group_vectors; ++n) {
        sum[h][n] =
            task.is_first
                ? _mm512_setzero_ps()
                : _mm512_mul_ps(_mm512_load_ps(o + h * k_panel_dims + n * k_lanes), factor);
      }
    }
    const int pairs = (task.row_count + 1) / 2;
    for (int t = 0; t < pairs; ++t) {
      __m512i vv[k_group_vectors];
#pragma GCC unroll 4
      for (int n = 0; n < k_group_vectors; ++n) {
        vv[n] = _mm512_load_si512(v + t * k_panel_dims + n * k_lanes);
      }
#pragma GCC unroll 6
      for (int h = 0; h < kHeads; ++h) {
        const __m512i weight = Broadcast(p + h);
#pragma GCC unroll 4
        for (int n = 0; n < k_group_vectors; ++n) sum[h][n] = Dot::add(sum[h][n], weight, vv[n]);
      }
      p += task.heads_padded;
    }
#pragma GCC unroll 6
    for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 4
      for (int n = 0; n < k_group_vectors; ++n) {
        _mm512_store_ps(o + h * k_panel_dims + n * k_lanes, sum[h][n]);
      }
    }
  }

  static void Values(const TileTask& task, const DecodeKernels& fp32) {
    for (int p = 0; p < k_value_panels; ++p) {
      fp32.prefetch_share(task, p, k_value_panels);
      const std::uint32_t* const v = VPanel(task, p);
      float* const o = task.partial.o + std::ptrdiff_t{p} * task.heads * k_panel_dims;
      ForBlocks<k_block>(task.heads, [&]<int kHeads>(int h) {
        ValueBlock<kHeads>(task, h, v, o + h * k_panel_dims);
      });
    }
  }

  static void AttendTile(const TileTask& task, const DecodeKernels& fp32) {
    fp32.stage_rows(task);
    Scores(task, fp32);
    fp32.softmax_tile(task);
    PackProbabilities(task);
    Values(task, fp32);
  }

  static double DotLoop(std::int64_t iterations) {
    constexpr int k_chains = 24;
    __m512 sum[k_chains];
#pragma GCC unroll 24
    for (int n = 0; n < k_chains; ++n) sum[n] = _mm512_set1_ps(0.01F * n);
    const __m512i a = _mm512_set1_epi32(0x3F803A80);  // 1 and 2^-10
    const __m512i b = _mm512_set1_epi32(0x3A803A80);
    for (std::int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 24
      for (int n = 0; n < k_chains; ++n) sum[n] = Dot::add(sum[n], a, b);
    }
    float total = 0;
    for (int n = 0; n < k_chains; ++n) total += _mm512_reduce_add_ps(sum[n]);
    return total < 0.0F ? 0.0 : 4.0 * k_lanes * k_chains * static_cast<double>(iterations);
  }
};

}  // namespace splitwave::cpu::bf16
