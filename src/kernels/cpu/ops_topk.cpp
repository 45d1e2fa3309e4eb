// Exact radix select of one row on the CPU.
#include <algorithm>
#include <array>
#include <bit>

#include "formats/ops_topk.h"
#include "kernels/cpu/ops_indexer.h"

namespace splitwave::cpu {
namespace {

constexpr int k_digit_bits = 11;
constexpr int k_bins = 1 << k_digit_bits;
using Histogram = std::array<std::uint32_t, k_bins>;

std::uint32_t key_at(const float* logits, std::int64_t i) {
  return topk_key(std::bit_cast<std::uint32_t>(logits[i]));
}

// The inverse of topk_key for keys of numbers.
float value_of(std::uint32_t key) {
  return std::bit_cast<float>((key >> 31) != 0 ? key & 0x7FFFFFFFU : ~key);
}

// The bin that holds the wanted-th largest entry; wanted becomes its rank inside the bin.
int threshold_bin(const Histogram& histogram, int bins, std::int64_t& wanted) {
  for (int bin = bins - 1; bin > 0; --bin) {
    if (wanted <= histogram[bin]) return bin;
    wanted -= histogram[bin];
  }
  return 0;
}

}  // namespace

int top_k_row(const OpsKernels& kernels, const float* logits, std::int64_t length, int k,
              std::uint32_t* candidates, std::int32_t* indices) {
  Histogram histogram{};
  std::int64_t nans = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    const std::uint32_t key = key_at(logits, i);
    ++histogram[key >> 21];
    nans += key == 0 ? 1 : 0;
  }
  const std::int64_t valid = length - nans;
  const std::int64_t kept = std::min<std::int64_t>(valid, k);
  std::uint32_t threshold = 1;  // every number
  std::int64_t equals = valid;  // how many entries equal to the threshold may be taken
  if (valid > k) {
    histogram[0] -= static_cast<std::uint32_t>(nans);
    equals = k;
    std::uint32_t prefix = static_cast<std::uint32_t>(threshold_bin(histogram, k_bins, equals));
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      const std::uint32_t key = key_at(logits, i);
      candidates[count] = key;
      count += (key >> 21) == prefix && key != 0 ? 1 : 0;
    }
    histogram.fill(0);
    for (std::int64_t i = 0; i < count; ++i) ++histogram[(candidates[i] >> 10) & 0x7FFU];
    prefix = prefix << 11 | static_cast<std::uint32_t>(threshold_bin(histogram, k_bins, equals));
    histogram.fill(0);
    for (std::int64_t i = 0; i < count; ++i) {
      if ((candidates[i] >> 10) == prefix) ++histogram[candidates[i] & 0x3FFU];
    }
    threshold = prefix << 10 | static_cast<std::uint32_t>(threshold_bin(histogram, 1024, equals));
  }
  // equals counts the entries at the threshold that fit, lowest indices first.
  const float limit = valid > k ? value_of(threshold) : -std::numeric_limits<float>::infinity();
  int written = 0;
  for (std::int64_t i = 0; written < kept; ++i) {
    i = kernels.next_at_least(logits, i, length, limit);
    if (valid > k && key_at(logits, i) == threshold && equals-- <= 0) continue;
    indices[written++] = static_cast<std::int32_t>(i);
  }
  std::fill(indices + written, indices + k, -1);
  return written;
}

}  // namespace splitwave::cpu
