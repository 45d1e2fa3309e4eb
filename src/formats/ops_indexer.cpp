// The indexer's logits in double.
#include "formats/ops_indexer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "formats/bf16.h"
#include "formats/ops_rows.h"

namespace splitwave {
namespace {

using Dims = std::array<float, k_indexer_dims>;

Dims query_dims(const IndexerSpec& spec, const LogitsCall& call, int row, int head) {
  Dims dims{};
  const auto* base = static_cast<const std::uint8_t*>(call.q) + row * call.q_row_stride_bytes;
  const IndexerFormat stored = spec.query == IndexerQuery::bf16 ? IndexerFormat::bf16 : spec.keys;
  const std::uint8_t* scales = nullptr;
  if (stored == IndexerFormat::fp4) {
    scales =
        call.q_scales + row * call.q_scales_row_stride + std::int64_t{head} * k_indexer_fp4_scales;
  }
  dequantise_indexer_row(stored, base + std::int64_t{head} * indexer_value_bytes(stored), scales,
                         dims.data());
  return dims;
}

// False: the key's page is absent.
bool key_dims(const IndexerSpec& spec, const LogitsCall& call, int row, std::int64_t key,
              Dims& dims, float& scale) {
  const std::int32_t page =
      call.key_pages.pages[row * call.key_pages.row_stride + key / call.keys.page_size];
  if (page < 0 || page >= call.keys.pages) return false;
  const std::int64_t slot = std::int64_t{page} * call.keys.page_size + key % call.keys.page_size;
  const SlotBytes at =
      planar_slot_bytes(slot, call.keys.page_size, call.keys.page_stride_bytes,
                        indexer_value_bytes(spec.keys), indexer_scale_bytes(spec.keys));
  scale = dequantise_indexer_row(spec.keys, call.keys.base + at.values, call.keys.base + at.scales,
                                 dims.data());
  return true;
}

struct LogitValue {
  double logit = 0;
  double magnitude = 0;
};

LogitValue one_logit(const std::vector<Dims>& q, const float* weights, const Dims& key,
                     float scale) {
  LogitValue sum;
  for (std::size_t head = 0; head < q.size(); ++head) {
    double dot = 0;
    double absolute = 0;
    for (int d = 0; d < k_indexer_dims; ++d) {
      const double product = static_cast<double>(q[head][d]) * key[d];
      dot += product;
      absolute += std::abs(product);
    }
    const double w = weights[head];
    sum.logit += w * (std::isnan(dot) ? dot : std::max(dot, 0.0));
    sum.magnitude += std::abs(w) * absolute;
  }
  return {sum.logit * scale, sum.magnitude * std::abs(static_cast<double>(scale))};
}

}  // namespace

std::int64_t clamped_length(const std::int32_t* lengths, int row, std::int64_t length_max) {
  return std::clamp<std::int64_t>(lengths[row], 0, length_max);
}

ReferenceLogits reference_logits(const IndexerSpec& spec, const LogitsCall& call) {
  ReferenceLogits out;
  out.columns = spec.length_max;
  const std::size_t cells = static_cast<std::size_t>(call.rows) * spec.length_max;
  out.logits.assign(cells, 0);
  out.magnitudes.assign(cells, 0);
  for (int row = 0; row < call.rows; ++row) {
    const std::int64_t length = clamped_length(call.lengths, row, spec.length_max);
    std::vector<Dims> q;
    for (int head = 0; head < spec.heads && length > 0; ++head) {
      q.push_back(query_dims(spec, call, row, head));
    }
    for (std::int64_t key = 0; key < length; ++key) {
      Dims dims{};
      float scale = 1.0F;
      LogitValue value{std::numeric_limits<double>::quiet_NaN(), 0};
      if (key_dims(spec, call, row, key, dims, scale)) {
        value = one_logit(q, call.weights + row * call.weights_row_stride, dims, scale);
      }
      out.logits[row * spec.length_max + key] = value.logit;
      out.magnitudes[row * spec.length_max + key] = value.magnitude;
    }
  }
  return out;
}

LogitsComparison compare_logits(const IndexerSpec& spec, const LogitsCall& call,
                                const ReferenceLogits& reference, std::uint32_t untouched_bits) {
  LogitsComparison result;
  for (int row = 0; row < call.rows; ++row) {
    const std::int64_t length = clamped_length(call.lengths, row, spec.length_max);
    for (std::int64_t key = 0; key < spec.length_max; ++key) {
      const float got = call.logits[row * call.logits_row_stride + key];
      const double want = reference.logits[row * reference.columns + key];
      const double magnitude = reference.magnitudes[row * reference.columns + key];
      bool ok = true;
      if (key >= length) {
        ok = std::bit_cast<std::uint32_t>(got) == untouched_bits;
      } else if (!std::isfinite(want) || !std::isfinite(got)) {
        ok = std::isnan(want) ? std::isnan(got) : static_cast<double>(got) == want;
      } else {
        const double error = std::abs(got - want);
        if (magnitude > 0) result.worst = std::max(result.worst, error / magnitude);
        ok = error <= k_logit_tolerance * magnitude;
      }
      if (!ok && result.failure.empty()) {
        result.failure = "row " + std::to_string(row) + " key " + std::to_string(key) + ": got " +
                         std::to_string(got) + ", want " +
                         (key >= length ? "an untouched column" : std::to_string(want));
      }
    }
  }
  result.ok = result.failure.empty();
  return result;
}

}  // namespace splitwave
