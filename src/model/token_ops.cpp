// Plain loops: their orders are the numerics.
#include "model/token_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "formats/bf16.h"
#include "formats/e8m0.h"
#include "formats/fp8.h"

namespace splitwave::model {
namespace {

// The e4m3 value nearest to v, ties to even, |v| <= 448: adding 1.5 * 2^(e + 20) leaves 3 mantissa
// bits of a float of exponent e, and of exponent -6 below it. A loop over it vectorises.
float nearest_e4m3(float v) {
  constexpr std::uint32_t k_exponent = 0x7F800000U;
  constexpr std::uint32_t k_least_normal = (127U - 6U) << 23;
  const std::uint32_t exponent =
      std::max(std::bit_cast<std::uint32_t>(v) & k_exponent, k_least_normal);
  const auto anchor = std::bit_cast<float>(exponent + (20U << 23) + 0x400000U);
  return (v + anchor) - anchor;
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// Rows then columns; the last pass is over columns. One pass over the rows' softmax came before.
void sinkhorn(float* comb, int n, const ModelConfig& config) {
  const auto eps = static_cast<float>(config.hc_eps);
  const auto scale_columns = [&] {
    for (int k = 0; k < n; ++k) {
      float sum = 0;
      for (int j = 0; j < n; ++j) sum += comb[j * n + k];
      for (int j = 0; j < n; ++j) comb[j * n + k] /= sum + eps;
    }
  };
  scale_columns();
  for (int pass = 1; pass < config.hc_sinkhorn_iterations; ++pass) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int k = 0; k < n; ++k) sum += comb[j * n + k];
      for (int k = 0; k < n; ++k) comb[j * n + k] /= sum + eps;
    }
    scale_columns();
  }
}

double inverse_rms(double square_sum, const ModelConfig& config) {
  const double count = double(config.hc_mult) * config.hidden;
  return 1.0 / std::sqrt(square_sum / count + config.rms_norm_eps);
}

}  // namespace

float rounded(float value) { return bf16_to_float(float_to_bf16(value)); }

void rms_norm(const float* x, const float* weight, int dims, double eps, float* out) {
  double sum = 0;
  for (int i = 0; i < dims; ++i) sum += double(x[i]) * x[i];
  const auto inverse = static_cast<float>(1.0 / std::sqrt(sum / dims + eps));
  for (int i = 0; i < dims; ++i) {
    const float value = x[i] * inverse;
    out[i] = rounded(weight == nullptr ? value : weight[i] * value);
  }
}

void quantise_activation(const float* x, int dims, float* out) {
  for (int begin = 0; begin < dims; begin += 128) {
    const int end = std::min(dims, begin + 128);
    float amax = 0;
    for (int i = begin; i < end; ++i) amax = std::max(amax, std::fabs(x[i]));
    const float scale = decode_e8m0(encode_e8m0_ceil(std::max(amax, 1e-4F) / k_e4m3_max));
    const float inverse = 1.0F / scale;  // a power of two: exact
    for (int i = begin; i < end; ++i) out[i] = nearest_e4m3(x[i] * inverse) * scale;
  }
}

std::vector<float> rope_table(const ModelConfig& config, bool is_compressed, int positions) {
  const int pairs = config.rope_dims / 2;
  const double theta = is_compressed ? config.compress_rope_theta : config.rope_theta;
  std::vector<double> frequency(static_cast<std::size_t>(pairs));
  const auto corrected = [&](double rotations) {
    return config.rope_dims *
           std::log(config.yarn.original_max_positions / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  const double low = std::max(0.0, std::floor(corrected(config.yarn.beta_fast)));
  const double high =
      std::min(double(config.rope_dims - 1), std::ceil(corrected(config.yarn.beta_slow)));
  for (int i = 0; i < pairs; ++i) {
    double f = std::pow(theta, -2.0 * i / config.rope_dims);
    if (is_compressed) {
      const double ramp = std::clamp((i - low) / std::max(high - low, 1e-3), 0.0, 1.0);
      f = f / config.yarn.factor * ramp + f * (1 - ramp);
    }
    frequency[static_cast<std::size_t>(i)] = f;
  }
  std::vector<float> table(static_cast<std::size_t>(positions) * 2 * frequency.size());
  for (int p = 0; p < positions; ++p) {
    float* row = table.data() + std::ptrdiff_t{p} * 2 * pairs;
    for (int i = 0; i < pairs; ++i) {
      const double angle = p * frequency[static_cast<std::size_t>(i)];
      row[i] = static_cast<float>(std::cos(angle));
      row[pairs + i] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

void rotate(const float* cos_sin, bool inverse, float* dims) {
  constexpr int k_pairs = 32;
  for (int i = 0; i < k_pairs; ++i) {
    const float c = cos_sin[i];
    const float s = inverse ? -cos_sin[k_pairs + i] : cos_sin[k_pairs + i];
    const float even = dims[2 * i];
    const float odd = dims[2 * i + 1];
    dims[2 * i] = rounded(even * c - odd * s);
    dims[2 * i + 1] = rounded(odd * c + even * s);
  }
}

Mixing mixing_of(const float* products, double square_sum, const MixingWeights& w,
                 const ModelConfig& config) {
  const int n = config.hc_mult;
  const double r = inverse_rms(square_sum, config);
  Mixing m;
  for (int j = 0; j < n; ++j) {
    const auto at = static_cast<std::size_t>(j);
    m.pre[j] =
        static_cast<float>(sigmoid(products[j] * r * w.scale[0] + w.base[at]) + config.hc_eps);
    m.post[j] = static_cast<float>(
        2 * sigmoid(products[n + j] * r * w.scale[1] + w.base[at + static_cast<std::size_t>(n)]));
  }
  for (int j = 0; j < n; ++j) {
    double row[k_streams_max];
    double top = -INFINITY;
    for (int k = 0; k < n; ++k) {
      const int at = 2 * n + n * j + k;
      row[k] = products[at] * r * w.scale[2] + w.base[static_cast<std::size_t>(at)];
      top = std::max(top, row[k]);
    }
    double sum = 0;
    for (int k = 0; k < n; ++k) sum += row[k] = std::exp(row[k] - top);
    for (int k = 0; k < n; ++k) {
      m.comb[j * n + k] = static_cast<float>(row[k] / sum + config.hc_eps);
    }
  }
  sinkhorn(m.comb, n, config);
  return m;
}

Mixing head_mixing_of(const float* products, double square_sum, const MixingWeights& w,
                      const ModelConfig& config) {
  const double r = inverse_rms(square_sum, config);
  Mixing m{};
  for (int j = 0; j < config.hc_mult; ++j) {
    m.pre[j] = static_cast<float>(
        sigmoid(products[j] * r * w.scale[0] + w.base[static_cast<std::size_t>(j)]) +
        config.hc_eps);
  }
  return m;
}

void mix_in(const Mixing& m, const float* x, int streams, int hidden, float* h) {
  for (int i = 0; i < hidden; ++i) {
    float sum = 0;
    for (int j = 0; j < streams; ++j) sum += m.pre[j] * x[j * hidden + i];
    h[i] = rounded(sum);
  }
}

void mix_out(const Mixing& m, const float* y, int streams, int hidden, float* x) {
  for (int i = 0; i < hidden; ++i) {
    float before[k_streams_max];
    for (int j = 0; j < streams; ++j) before[j] = x[j * hidden + i];
    for (int k = 0; k < streams; ++k) {
      float sum = m.post[k] * y[i];
      for (int j = 0; j < streams; ++j) sum += m.comb[j * streams + k] * before[j];
      x[k * hidden + i] = rounded(sum);
    }
  }
}

float expert_score(float gate_logit) {
  const double x = gate_logit;
  const double softplus = x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
  return static_cast<float>(std::sqrt(softplus));
}

void choose_experts(std::span<const float> scores, std::span<const float> bias, int k,
                    std::span<Route> routes) {
  const auto value = [&](std::size_t e) { return bias.empty() ? scores[e] : scores[e] + bias[e]; };
  for (int slot = 0; slot < k; ++slot) {
    int best = -1;
    for (std::size_t e = 0; e < scores.size(); ++e) {
      const bool is_taken = std::any_of(routes.begin(), routes.begin() + slot, [&](const Route& r) {
        return r.expert == static_cast<int>(e);
      });
      if (is_taken) continue;
      if (best < 0 || value(e) > value(static_cast<std::size_t>(best))) best = static_cast<int>(e);
    }
    routes[static_cast<std::size_t>(slot)].expert = best;
  }
}

void weigh_routes(std::span<const float> scores, double scaling, std::span<Route> routes) {
  double sum = 0;
  for (const Route& r : routes) sum += scores[static_cast<std::size_t>(r.expert)];
  for (Route& r : routes) {
    const double share = sum > 0 ? scores[static_cast<std::size_t>(r.expert)] / sum
                                 : 1.0 / static_cast<double>(routes.size());
    r.weight = static_cast<float>(share * scaling);
  }
}

void clamped_swiglu(float* gate, const float* up, int dims, double limit, float weight) {
  const auto bound = static_cast<float>(limit);
  for (int i = 0; i < dims; ++i) {
    const float g = std::min(rounded(gate[i]), bound);  // one-sided, before the SiLU
    const float u = std::clamp(rounded(up[i]), -bound, bound);
    const float silu = g / (1.0F + std::exp(-g));
    gate[i] = rounded(silu * u * weight);
  }
}

}  // namespace splitwave::model
