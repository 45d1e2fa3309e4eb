// Greedy, temperature and nucleus sampling without a sort of the vocabulary.
#include "serve/sampler.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace splitwave::serve {
namespace {

constexpr float k_minus_infinity = -std::numeric_limits<float>::infinity();

std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Index of the largest logit, the lowest on ties; 0 when there is no number.
std::int32_t argmax(std::span<const float> logits) {
  std::int32_t best = 0;
  float best_logit = k_minus_infinity;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > best_logit) {
      best_logit = logits[i];
      best = static_cast<std::int32_t>(i);
    }
  }
  return best;
}

// Nucleus candidates are first cut by buckets of the exponent: 1/8 nat a bucket, so that only the
// bucket in which the mass is reached needs a sort.
constexpr int k_buckets = 512;
constexpr double k_buckets_per_nat = 8;

int bucket_of(double below_max) {
  return static_cast<int>(std::min(below_max * k_buckets_per_nat, k_buckets - 1.0));
}

}  // namespace

double sampling_uniform(std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t bits = splitmix64(splitmix64(seed) ^ splitmix64(~index));
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

std::uint64_t hash_logits(std::span<const float> logits) {
  return XXH64(logits.data(), logits.size_bytes(), 0);
}

std::int32_t Sampler::sample(std::span<const float> logits, const SamplingOptions& options,
                             int index, std::span<const std::int32_t> masked) {
  if (!masked.empty()) {
    masked_logits_.assign(logits.begin(), logits.end());
    for (const std::int32_t token : masked) {
      masked_logits_[static_cast<std::size_t>(token)] = k_minus_infinity;
    }
    logits = masked_logits_;
  }
  const std::int32_t best = argmax(logits);
  const float max_logit = logits[static_cast<std::size_t>(best)];
  if (options.temperature <= 0 || !std::isfinite(max_logit)) return best;
  return draw(logits, max_logit, 1 / options.temperature, options.top_p,
              sampling_uniform(options.seed, static_cast<std::uint64_t>(index)));
}

std::int32_t Sampler::draw(std::span<const float> logits, float max_logit,
                           double inverse_temperature, double top_p, double uniform) {
  weights_.resize(logits.size());
  double total = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double x = (static_cast<double>(logits[i]) - max_logit) * inverse_temperature;
    weights_[i] = x > -745 ? std::exp(x) : 0;  // false for NaN too
    total += weights_[i];
  }
  if (top_p < 1)
    return draw_nucleus(top_p * total, uniform, inverse_temperature, logits, max_logit);
  double left = uniform * total;
  std::int32_t last = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] <= 0) continue;
    last = static_cast<std::int32_t>(i);
    left -= weights_[i];
    if (left < 0) break;
  }
  return last;
}

std::int32_t Sampler::draw_nucleus(double target_mass, double uniform, double inverse_temperature,
                                   std::span<const float> logits, float max_logit) {
  const auto bucket = [&](std::size_t i) {
    return bucket_of((static_cast<double>(max_logit) - logits[i]) * inverse_temperature);
  };
  std::array<double, k_buckets> mass{};
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] > 0) mass[static_cast<std::size_t>(bucket(i))] += weights_[i];
  }
  int last_bucket = 0;
  double before = 0;
  while (last_bucket + 1 < k_buckets &&
         before + mass[static_cast<std::size_t>(last_bucket)] < target_mass) {
    before += mass[static_cast<std::size_t>(last_bucket++)];
  }
  candidates_.clear();
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] > 0 && bucket(i) <= last_bucket) {
      candidates_.push_back(static_cast<std::int32_t>(i));
    }
  }
  // Most likely first: the nucleus is the shortest prefix that reaches the mass.
  std::sort(candidates_.begin(), candidates_.end(), [&](std::int32_t a, std::int32_t b) {
    const double wa = weights_[static_cast<std::size_t>(a)];
    const double wb = weights_[static_cast<std::size_t>(b)];
    return wa != wb ? wa > wb : a < b;
  });
  double kept = 0;
  std::size_t count = 0;
  while (count < candidates_.size() && (count == 0 || kept < target_mass)) {
    kept += weights_[static_cast<std::size_t>(candidates_[count++])];
  }
  double left = uniform * kept;
  for (std::size_t i = 0; i < count; ++i) {
    left -= weights_[static_cast<std::size_t>(candidates_[i])];
    if (left < 0) return candidates_[i];
  }
  return candidates_[count - 1];
}

void Sampler::logprobs(std::span<const float> logits, std::int32_t token, int count,
                       GeneratedToken& result) {
  const float max_logit = logits[static_cast<std::size_t>(argmax(logits))];
  double total = 0;
  for (const float logit : logits) {
    const double x = static_cast<double>(logit) - max_logit;
    if (x <= 0) total += std::exp(x);
  }
  const double log_total = max_logit + std::log(total);
  const auto logprob = [&](std::int32_t t) {
    return static_cast<float>(logits[static_cast<std::size_t>(t)] - log_total);
  };
  result.logprob = logprob(token);
  count = std::min({count, k_top_logprobs_max, static_cast<int>(logits.size())});
  if (count <= 0) return;
  candidates_.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) candidates_[i] = static_cast<std::int32_t>(i);
  std::partial_sort(candidates_.begin(), candidates_.begin() + count, candidates_.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      const float la = logits[static_cast<std::size_t>(a)];
                      const float lb = logits[static_cast<std::size_t>(b)];
                      if (std::isnan(la) || std::isnan(lb)) {  // a strict order with NaN last
                        return std::isnan(la) == std::isnan(lb) ? a < b : std::isnan(lb);
                      }
                      return la != lb ? la > lb : a < b;
                    });
  for (int i = 0; i < count; ++i) {
    const std::int32_t t = candidates_[static_cast<std::size_t>(i)];
    result.top.push_back({t, logprob(t)});
  }
}

}  // namespace splitwave::serve
