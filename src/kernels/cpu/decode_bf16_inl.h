// The bf16 decode kernel: both products by a dot of bf16 pairs accumulated in fp32 (vdpbf16ps),
// twice the multiply-adds an instruction; P V takes two, one for each bf16 part of a probability.
// Owns the pair layouts and the micro-kernels; rows are staged and exponentiated by the fp32
// AVX-512 table, which also decodes what the direct path here leaves out. A template over the dot,
// so that the same code runs with vdpbf16ps (decode_avx512bf16.cpp) and with a software model of it
// (the tests), on any processor with AVX-512. Included by those two only; needs AVX-512 F, BW, VL
// and DQ.
//
// q       panel -> group of up to 64 heads -> [32 dim pairs][heads], a 32-bit pair a cell
// tile    K: panel -> [tile_rows_capacity][64] bf16, then V: panel -> [row pairs][64 dims], a
//         32-bit pair (even row low, odd row high) a cell
// scores  fp32 [rows][heads_padded], then in place the probabilities: a row of pairs of their
//         leading bf16 numbers, a row of pairs of the rests, and so on
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
        for (int h = 0; h < width; h += 4) {
          for (int i = 0; i < k_pairs; i += 4) {
            const std::uint16_t* rows[4] = {};
            for (int n = 0; n < 4 && g + h + n < heads; ++n) {
              rows[n] = q + (g + h + n) * head_stride + p * k_panel_dims + 2 * i;
            }
            PackQBlock(rows, width, group + i * width + h);
          }
        }
      }
    }
  }

  // The transpose of 4 heads x 4 pairs; a null row is a pad head.
  static void PackQBlock(const std::uint16_t* const (&rows)[4], int width, std::uint32_t* to) {
    __m128i a[4];
    for (int h = 0; h < 4; ++h) {
      a[h] = rows[h] == nullptr ? _mm_setzero_si128()
                                : _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[h]));
    }
    const __m128i low01 = _mm_unpacklo_epi32(a[0], a[1]);
    const __m128i low23 = _mm_unpacklo_epi32(a[2], a[3]);
    const __m128i high01 = _mm_unpackhi_epi32(a[0], a[1]);
    const __m128i high23 = _mm_unpackhi_epi32(a[2], a[3]);
    const __m128i pairs[4] = {_mm_unpacklo_epi64(low01, low23), _mm_unpackhi_epi64(low01, low23),
                              _mm_unpacklo_epi64(high01, high23),
                              _mm_unpackhi_epi64(high01, high23)};
    for (int i = 0; i < 4; ++i) {
      _mm_store_si128(reinterpret_cast<__m128i*>(to + i * width), pairs[i]);
    }
  }

  // ---- V4 rows straight to bf16: a scale is a power of two, so a code's value is bf16's bits,
  // moved

  // Scale codes whose products with every code are normal bf16 numbers.
  static constexpr int k_scale_code_min = 10;
  static constexpr int k_scale_code_max = 246;

  // Whether no row of a V4 panel holds a NaN code or such a scale: those go through fp32.
  static bool IsPlain(const TileTask& task, int p) {
    const __m512i magnitude = _mm512_set1_epi8(0x7F);
    __mmask64 nan = 0;
    bool is_plain = true;
    const std::uint8_t* row = task.raw;
    for (int t = 0; t < task.row_count; ++t, row += k_raw_row_bytes) {
      const __m512i codes = _mm512_and_si512(_mm512_load_si512(row + p * k_panel_dims), magnitude);
      nan |= _mm512_cmpeq_epi8_mask(codes, magnitude);
      const int scale = row[k_v4_data_bytes + p];
      is_plain &= scale >= k_scale_code_min && scale <= k_scale_code_max;
    }
    return is_plain && nan == 0;
  }

  // 32 codes of one scale. e4m3 is s eeee mmm: moved up by 4, exponent and mantissa lie where
  // bf16's do, and the biases (7 against 127) and the scale are one addition. Subnormal codes
  // (eeee = 0) have their normalised bits in a table.
  static __m512i DecodeCodes(const std::uint8_t* codes, int scale_code) {
    const __m512i subnormal =  // of mmm, relative to the exponent that eeee = 0 would give
        _mm512_castsi128_si512(_mm_set_epi16(96, 64, 32, 0, -64, -128, -256, 0));
    const __m512i wide =
        _mm512_cvtepi8_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(codes)));
    const __m512i magnitude = _mm512_and_si512(wide, _mm512_set1_epi16(0x7F));
    const __mmask32 is_subnormal = _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(8));
    const __mmask32 is_nonzero = _mm512_test_epi16_mask(magnitude, magnitude);
    const __m512i moved = _mm512_mask_permutexvar_epi16(_mm512_slli_epi16(magnitude, 4),
                                                        is_subnormal, magnitude, subnormal);
    const __m512i bias = _mm512_set1_epi16(static_cast<short>((scale_code - 7) << 7));
    const __m512i value = _mm512_maskz_add_epi16(is_nonzero, moved, bias);
    return _mm512_or_si512(value, _mm512_and_si512(wide, _mm512_set1_epi16(-0x8000)));
  }

  // Rows t and t + 1 of a panel's half (32 dims); odd is all zero where there is no row t + 1.
  static void StoreRows(__m512i even, __m512i odd, bool has_odd, std::uint16_t* k,
                        std::uint32_t* v) {
    _mm512_store_si512(k, even);
    if (has_odd) _mm512_store_si512(k + k_panel_dims, odd);
    if (v == nullptr) return;
    // Unpacking works inside 128-bit lanes: give lane i dims 4 i .. 4 i + 3 and 16 + 4 i ... first.
    const __m512i lanes = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
    const __m512i a = _mm512_permutexvar_epi64(lanes, even);
    const __m512i b = _mm512_permutexvar_epi64(lanes, odd);
    _mm512_store_si512(v, _mm512_unpacklo_epi16(a, b));
    _mm512_store_si512(v + k_lanes, _mm512_unpackhi_epi16(a, b));
  }

  // A V4 panel of plain rows; v may be null.
  static void DecodeV4Panel(const TileTask& task, int p, std::uint16_t* k, std::uint32_t* v) {
    const bool is_rope = p == k_v4_nope_dims / k_panel_dims;
    constexpr int k_half = k_panel_dims / 2;
    for (int t = 0; t < task.row_count; t += 2) {
      const std::uint8_t* const rows[2] = {task.raw + std::ptrdiff_t{t} * k_raw_row_bytes,
                                           task.raw + std::ptrdiff_t{t + 1} * k_raw_row_bytes};
      const bool has_odd = t + 1 < task.row_count;
      for (int i = 0; i < k_panel_dims; i += k_half) {
        __m512i values[2] = {};
        for (int n = 0; n < 1 + static_cast<int>(has_odd); ++n) {
          values[n] =
              is_rope ? _mm512_load_si512(rows[n] + k_v4_rope_offset_bytes + 2 * i)
                      : DecodeCodes(rows[n] + p * k_panel_dims + i, rows[n][k_v4_data_bytes + p]);
        }
        StoreRows(values[0], values[1], has_odd, k + t * k_panel_dims + i,
                  v == nullptr ? nullptr : v + (t / 2) * k_panel_dims + i);
      }
    }
  }

  // Panel p of K, and of V where v is not null.
  static void DecodePanel(const TileTask& task, const DecodeKernels& fp32, int p, std::uint16_t* k,
                          std::uint32_t* v) {
    const bool is_rope = p == k_v4_nope_dims / k_panel_dims;
    if (task.format == KvFormat::v4 && (is_rope || IsPlain(task, p))) {
      DecodeV4Panel(task, p, k, v);
      return;
    }
    fp32.dequantize_panel(task, p, task.panel);
    StorePanel(task.panel, task.row_count, k, v);
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
        sum[t][n] =
            is_first_panel ? _mm512_setzero_ps() : _mm512_load_ps(s + t * s_stride + n * k_lanes);
      }
    }
#pragma GCC unroll 2
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
      std::uint16_t* const k = KPanel(task, p);
      DecodePanel(task, fp32, p, k, p < k_value_panels ? VPanel(task, p) : nullptr);
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

  // A probability is the sum of two bf16 numbers, 16 bits of it: one alone, off by up to 2^-9,
  // loses the contract's bound where a few keys hold all the weight. Rows 2 i and 2 i + 1 become,
  // in place, the pairs of the leading numbers and the pairs of the rests; the tile's capacity is
  // even.
  static void PackProbabilities(const TileTask& task) {
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
    for (int t = 0; t < task.row_count; t += 2) {
      float* const rows[2] = {task.scores + std::ptrdiff_t{t} * task.heads_padded,
                              task.scores + std::ptrdiff_t{t + 1} * task.heads_padded};
      const int count = std::min(2, task.row_count - t);
      for (int h = 0; h < task.heads_padded; h += k_lanes) {
        __m512i lead[2] = {};
        __m512i rest[2] = {};
        for (int n = 0; n < count; ++n) {
          const __m512 p = _mm512_load_ps(rows[n] + h);
          lead[n] = _mm512_and_si512(Rounded(p), high);
          const __m512 left = _mm512_sub_ps(p, _mm512_castsi512_ps(lead[n]));
          rest[n] = _mm512_and_si512(Rounded(left), high);
        }
        _mm512_store_si512(rows[0] + h, _mm512_or_si512(_mm512_srli_epi32(lead[0], 16), lead[1]));
        _mm512_store_si512(rows[1] + h, _mm512_or_si512(_mm512_srli_epi32(rest[0], 16), rest[1]));
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
        sum[h][n] = task.is_first
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
        const __m512i lead = Broadcast(p + h);
        const __m512i rest = Broadcast(p + task.heads_padded + h);
#pragma GCC unroll 4
        for (int n = 0; n < k_group_vectors; ++n) {
          sum[h][n] = Dot::add(Dot::add(sum[h][n], rest, vv[n]), lead, vv[n]);
        }
      }
      p += std::ptrdiff_t{2} * task.heads_padded;
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
