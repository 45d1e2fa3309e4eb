// Sparse decode in double precision: gather, score, softmax, weigh, sink. One loop a sentence.
#include "formats/reference.h"

#include <array>
#include <cmath>
#include <limits>

#include "formats/bf16.h"
#include "formats/index_list.h"
#include "formats/kv_row.h"

namespace splitwave {
namespace {

// The keys of one row, dequantised: [count, d_qk].
struct RowKeys {
  std::vector<double> k;
  std::int64_t count = 0;
};

void gather(KvFormat format, const CacheView& cache, const IndexList& list, int width,
            std::int64_t row, RowKeys& keys) {
  if (width == 0) return;
  const auto d = static_cast<std::size_t>(qk_dims(format));
  const int length = row_length(cache, list, width, row);
  for (int i = 0; i < length; ++i) {
    const std::int32_t slot = list_entry(list, row, i);
    if (!is_valid_slot(cache, slot)) continue;
    keys.k.resize((static_cast<std::size_t>(keys.count) + 1) * d);
    const std::span<double> values(keys.k.data() + static_cast<std::size_t>(keys.count) * d, d);
    dequantise_row(format, unpack_row(format, cache, slot), values);
    ++keys.count;
  }
}

// Eight running sums: independent additions, so that the reference is slow but not latency-bound.
double dot(const double* a, const double* b, int n) {
  std::array<double, 8> sums{};
  for (int i = 0; i < n; i += 8) {
    for (int lane = 0; lane < 8; ++lane) {
      sums[static_cast<std::size_t>(lane)] += a[i + lane] * b[i + lane];
    }
  }
  double total = 0;
  for (const double s : sums) total += s;
  return total;
}
static_assert(k_v32_qk_dims % 8 == 0 && k_v4_qk_dims % 8 == 0);

// One head of one row; out: 512 values, zeroed. Gives the lse.
double attend(const RowKeys& keys, const double* q, int d, double softmax_scale, const float* sink,
              std::vector<double>& scores, double* out) {
  if (keys.count == 0) return std::numeric_limits<double>::infinity();
  scores.resize(static_cast<std::size_t>(keys.count));
  double max = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < keys.count; ++i) {
    const double score = softmax_scale * dot(q, keys.k.data() + i * d, d);
    scores[static_cast<std::size_t>(i)] = score;
    // A NaN score must reach the result: a comparison would drop it.
    max = std::isnan(score) || score > max ? score : max;
    if (std::isnan(max)) break;
  }
  double sum = 0;
  for (std::int64_t i = 0; i < keys.count; ++i) {
    const double p = std::isnan(max) ? max : std::exp(scores[static_cast<std::size_t>(i)] - max);
    sum += p;
    const double* v = keys.k.data() + i * d;  // V is the first 512 dims of K
    for (int c = 0; c < k_value_dims; ++c) out[c] += p * v[c];
  }
  const double lse = max + std::log(sum);
  double denominator = sum;
  if (sink != nullptr) denominator += std::exp(static_cast<double>(*sink) - max);
  for (int c = 0; c < k_value_dims; ++c) out[c] /= denominator;
  return lse;
}

}  // namespace

ReferenceResult reference_decode(const ProblemSpec& spec, const DecodeCall& call) {
  const int d = qk_dims(spec.format);
  const auto cells = static_cast<std::size_t>(call.rows) * static_cast<std::size_t>(spec.heads);
  ReferenceResult result;
  result.out.assign(cells * k_value_dims, 0.0);
  result.lse.assign(cells, 0.0);
  RowKeys keys;
  std::vector<double> q(static_cast<std::size_t>(d));
  std::vector<double> scores;
  for (std::int64_t row = 0; row < call.rows; ++row) {
    keys.k.clear();
    keys.count = 0;
    gather(spec.format, call.main_cache, call.main_list, spec.main_width, row, keys);
    gather(spec.format, call.extra_cache, call.extra_list, spec.extra_width, row, keys);
    for (std::int64_t head = 0; head < spec.heads; ++head) {
      const std::uint16_t* q_bits = call.q + row * call.q_row_stride + head * call.q_head_stride;
      for (int c = 0; c < d; ++c) q[static_cast<std::size_t>(c)] = bf16_to_float(q_bits[c]);
      const auto cell = static_cast<std::size_t>(row * spec.heads + head);
      result.lse[cell] = attend(keys, q.data(), d, call.softmax_scale,
                                call.sink == nullptr ? nullptr : call.sink + head, scores,
                                result.out.data() + cell * k_value_dims);
    }
  }
  return result;
}

}  // namespace splitwave
