// The portable decode kernels' V3.2 arithmetic, emulated on the host and judged by the accuracy
// contract. Owns the emulation of mma.sync's accumulation and of the weights' rounding; runs no
// kernel. It found why one bf16 term a weight misses the contract (see p_parts in
// portable/config.h): neither truncating sums nor their order matter, the weight's rounding does.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "formats/bf16.h"
#include "formats/compare.h"
#include "formats/index_list.h"
#include "formats/kv_row.h"
#include "formats/reference.h"
#include "formats/synthetic.h"
#include "splitwave/layout.h"

namespace splitwave {
namespace {

constexpr int k_tile = 64;
constexpr int k_step = 16;  // products of one mma.sync
constexpr double k_log2_e = 1.44269504088896340736;

// One mma.sync of 16 products, as tensor cores up to Hopper add: every term and the accumulator are
// aligned to the largest exponent and truncated two bits below fp32's last place, the sum is
// truncated to fp32. Products of bf16 are exact.
float mma_step(float accumulator, const float* a, const float* b) {
  constexpr int extra_bits = 2;
  std::array<double, k_step + 1> terms{};
  int exponent = std::numeric_limits<int>::min();
  for (int i = 0; i <= k_step; ++i) {
    terms[static_cast<std::size_t>(i)] =
        i == k_step ? double{accumulator} : double{a[i]} * double{b[i]};
    const double t = terms[static_cast<std::size_t>(i)];
    if (t != 0) exponent = std::max(exponent, std::ilogb(t));
  }
  if (exponent == std::numeric_limits<int>::min()) return 0.0F;
  const int shift = 23 + extra_bits - exponent;
  double sum = 0;
  for (const double t : terms) sum += std::trunc(std::ldexp(t, shift));
  if (sum == 0) return 0.0F;
  const int drop = std::max(0, std::ilogb(sum) - 23);
  sum = std::ldexp(std::trunc(std::ldexp(sum, -drop)), drop);
  return static_cast<float>(std::ldexp(sum, -shift));
}

struct Keys {
  std::vector<float> k;  // [count, d_qk], exact bf16 values
  std::vector<bool> valid;
  int count = 0;
};

void gather(KvFormat format, const CacheView& cache, const IndexList& list, int width,
            std::int64_t row, Keys& keys) {
  if (width == 0) return;
  const int d = qk_dims(format);
  const int length = row_length(cache, list, width, row);
  std::vector<double> values(static_cast<std::size_t>(d));
  for (int i = 0; i < length; ++i) {
    const std::int32_t slot = list_entry(list, row, i);
    const bool valid = is_valid_slot(cache, slot);
    std::fill(values.begin(), values.end(), 0.0);
    if (valid) dequantise_row(format, unpack_row(format, cache, slot), values);
    keys.k.insert(keys.k.end(), values.begin(), values.end());
    keys.valid.push_back(valid);
    ++keys.count;
  }
}

// RoPE, the last group, first; then the others in order: one accumulator, as V3.2's kernel.
float score(const float* q, const float* k, int d) {
  float s = 0;
  for (int at = d - 64; at < d; at += k_step) s = mma_step(s, k + at, q + at);
  for (int at = 0; at < d - 64; at += k_step) s = mma_step(s, k + at, q + at);
  return s;
}

// One head of one row over a single chunk, in tiles of 64; each tile's maximum becomes the
// reference before its exponentials are taken. P is the sum of p_terms bf16 numbers.
void attend(const Keys& keys, const float* q, int d, float softmax_scale, float sink, int p_terms,
            std::uint16_t* out, float* lse) {
  const float factor = softmax_scale * static_cast<float>(k_log2_e);
  float m = -std::numeric_limits<float>::infinity();
  float l = 0;
  std::array<float, k_value_dims> o{};
  for (int tile = 0; tile < keys.count; tile += k_tile) {
    std::array<float, k_tile> s{};
    float m_new = m;
    for (int i = 0; i < k_tile; ++i) {
      const int at = tile + i;
      s[static_cast<std::size_t>(i)] = -std::numeric_limits<float>::infinity();
      if (at >= keys.count || !keys.valid[static_cast<std::size_t>(at)]) continue;
      s[static_cast<std::size_t>(i)] = factor * score(q, keys.k.data() + std::int64_t{at} * d, d);
      m_new = std::max(m_new, s[static_cast<std::size_t>(i)]);
    }
    const float alpha = std::isinf(m) ? 0.0F : std::exp2(m - m_new);
    std::array<std::array<float, k_tile>, 2> p{};
    l *= alpha;
    for (int i = 0; i < k_tile; ++i) {
      const float e = std::isinf(s[static_cast<std::size_t>(i)])
                          ? 0.0F
                          : std::exp2(s[static_cast<std::size_t>(i)] - m_new);
      l += e;
      float rest = e;
      for (int term = 0; term < p_terms; ++term) {
        const float rounded = bf16_to_float(float_to_bf16(rest));
        p[static_cast<std::size_t>(term)][static_cast<std::size_t>(i)] = rounded;
        rest -= rounded;
      }
    }
    const int live = std::min(k_tile, keys.count - tile);
    for (int c = 0; c < k_value_dims; ++c) {
      float acc = o[static_cast<std::size_t>(c)] * alpha;
      for (int step = 0; step < live; step += k_step) {
        std::array<float, k_step> v{};
        for (int i = 0; i < k_step && tile + step + i < keys.count; ++i) {
          v[static_cast<std::size_t>(i)] =
              keys.k[static_cast<std::size_t>((std::int64_t{tile} + step + i) * d + c)];
        }
        for (int term = 0; term < p_terms; ++term) {
          acc = mma_step(acc, v.data(), p[static_cast<std::size_t>(term)].data() + step);
        }
      }
      o[static_cast<std::size_t>(c)] = acc;
    }
    m = m_new;
  }
  const float inverse =
      l == 0 ? 0.0F : 1.0F / (l + std::exp2(sink * static_cast<float>(k_log2_e) - m));
  for (int c = 0; c < k_value_dims; ++c) {
    out[c] = float_to_bf16(o[static_cast<std::size_t>(c)] * inverse);
  }
  *lse = l == 0 ? std::numeric_limits<float>::infinity()
                : (m + std::log2(l)) / static_cast<float>(k_log2_e);
}

// A few keys of weight below 1 carry rows whose largest score has a small value vector.
SyntheticOptions options_of(std::uint64_t seed) {
  SyntheticOptions o;
  o.spec.format = KvFormat::v32;
  o.spec.heads = 24;
  o.spec.main_width = 96;
  o.rows = o.spec.rows_max = 2;
  o.seed = seed;
  o.scores = ScoreKind::falling;
  o.scales = ScaleKind::wide;
  return o;
}

Comparison emulated(const SyntheticOptions& options, int p_terms) {
  SyntheticProblem problem(options);
  const DecodeCall& call = problem.call();
  const int d = qk_dims(options.spec.format);
  std::vector<float> q(static_cast<std::size_t>(d));
  for (std::int64_t row = 0; row < call.rows; ++row) {
    Keys keys;
    gather(options.spec.format, call.main_cache, call.main_list, options.spec.main_width, row,
           keys);
    for (std::int64_t head = 0; head < options.spec.heads; ++head) {
      const std::uint16_t* bits = call.q + row * call.q_row_stride + head * call.q_head_stride;
      for (int i = 0; i < d; ++i) q[static_cast<std::size_t>(i)] = bf16_to_float(bits[i]);
      attend(keys, q.data(), d, call.softmax_scale, -std::numeric_limits<float>::infinity(),
             p_terms, call.out + row * call.out_row_stride + head * call.out_head_stride,
             call.lse + row * call.lse_row_stride + head);
    }
  }
  return compare_decode(options.spec, call, reference_decode(options.spec, call));
}

constexpr int k_seeds = 5;
constexpr double k_output_rounding_alone = 3e-3;  // 2^-9 rms, more where mantissas are small

TEST(PortableArithmetic, TwoTermsOfAWeightLeaveTheOutputsRoundingAlone) {
  for (int seed = 1; seed <= k_seeds; ++seed) {
    const Comparison c = emulated(options_of(static_cast<std::uint64_t>(seed)), 2);
    EXPECT_TRUE(c.ok) << c.failure;
    EXPECT_LT(c.worst_row_rel_l2, k_output_rounding_alone) << "seed " << seed;
  }
}

TEST(PortableArithmetic, OneTermOfAWeightDoesNot) {
  double worst = 0;
  for (int seed = 1; seed <= k_seeds; ++seed) {
    worst =
        std::max(worst, emulated(options_of(static_cast<std::uint64_t>(seed)), 1).worst_row_rel_l2);
  }
  EXPECT_GT(worst, k_output_rounding_alone);
}

}  // namespace
}  // namespace splitwave
