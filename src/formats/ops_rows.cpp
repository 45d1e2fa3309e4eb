// The row transforms, one loop a sentence. The kernels repeat this arithmetic in their own order of
// work; the tests compare bytes.
#include "formats/ops_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "formats/bf16.h"
#include "formats/e8m0.h"
#include "formats/fp4.h"
#include "formats/fp8.h"
#include "formats/ops_math.h"

namespace splitwave {
namespace {

constexpr int k_pairs = k_rope_dims / 2;

// YaRN's correction dimension: the pair index whose wavelength fits `rotations` times into the
// original context.
double correction_dim(const RopeProfile& p, double rotations) {
  return k_rope_dims * std::log(p.original_positions / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(p.theta));
}

float rope_frequency(const RopeProfile& p, int pair) {
  const double plain = std::pow(p.theta, -2.0 * pair / k_rope_dims);
  if (p.yarn_factor == 1.0) return static_cast<float>(plain);
  const double low = std::max(std::floor(correction_dim(p, p.beta_fast)), 0.0);
  const double high = std::min(std::ceil(correction_dim(p, p.beta_slow)), k_rope_dims - 1.0);
  const double smooth = 1.0 - std::clamp((pair - low) / std::max(high - low, 1e-3), 0.0, 1.0);
  return static_cast<float>(plain / p.yarn_factor * (1.0 - smooth) + plain * smooth);
}

std::uint32_t amax_bits(const std::uint16_t* dims, int count) {
  std::uint32_t amax = 0;
  for (int i = 0; i < count; ++i) amax = std::max<std::uint32_t>(amax, dims[i] & 0x7FFFU);
  return amax;
}

// Codes of one e4m3 block under a scale that is a power of two, any fp32, or NaN.
void encode_e4m3_block(const std::uint16_t* dims, int count, float scale, std::uint8_t* codes) {
  for (int i = 0; i < count; ++i) {
    codes[i] = std::isnan(scale) ? k_e4m3_nan_code : encode_e4m3(bf16_to_float(dims[i]) / scale);
  }
}

std::uint8_t e8m0_of_scale(float scale) {
  return std::isnan(scale) ? k_e8m0_nan_code : encode_e8m0_ceil(scale);
}

void store_float(float value, std::uint8_t* out) { std::memcpy(out, &value, sizeof value); }

void quantise_fp4_row(const std::uint16_t* dims, std::uint8_t* values, std::uint8_t* scales) {
  for (int block = 0; block < k_indexer_fp4_scales; ++block) {
    const std::uint16_t* in = dims + block * k_indexer_fp4_group;
    const float scale =
        block_scale(amax_bits(in, k_indexer_fp4_group), k_amax_floor_fp4, k_e2m1_max, true);
    scales[block] = e8m0_of_scale(scale);
    for (int i = 0; i < k_indexer_fp4_group; i += 2) {
      const std::uint8_t even = encode_e2m1(bf16_to_float(in[i]) / scale);
      const std::uint8_t odd = encode_e2m1(bf16_to_float(in[i + 1]) / scale);
      values[(block * k_indexer_fp4_group + i) / 2] = pack_e2m1(even, odd);
    }
  }
}

}  // namespace

std::uint16_t bf16_code(float value) { return static_cast<std::uint16_t>(op_bf16(value)); }

void fill_rope_table(const RopeProfile& profile, std::int64_t first, std::int64_t count,
                     float* out) {
  std::array<float, k_pairs> frequency{};
  for (int i = 0; i < k_pairs; ++i) frequency[i] = rope_frequency(profile, i);
  for (std::int64_t p = 0; p < count; ++p) {
    for (int i = 0; i < k_pairs; ++i) {
      const float angle = static_cast<float>(first + p) * frequency[i];
      out[p * k_rope_dims + i] = static_cast<float>(std::cos(static_cast<double>(angle)));
      out[p * k_rope_dims + k_pairs + i] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
}

void rotate_rope(std::uint16_t* dims, const float* cos_sin) {
  for (int i = 0; i < k_pairs; ++i) {
    const float x = bf16_to_float(dims[2 * i]);
    const float y = bf16_to_float(dims[2 * i + 1]);
    const float c = cos_sin[i];
    const float s = cos_sin[k_pairs + i];
    dims[2 * i] = bf16_code(op_sub(op_mul(x, c), op_mul(y, s)));
    dims[2 * i + 1] = bf16_code(op_add(op_mul(y, c), op_mul(x, s)));
  }
}

void rotate_hadamard(std::uint16_t* dims) {
  std::array<float, k_indexer_dims> x{};
  for (int i = 0; i < k_indexer_dims; ++i) x[i] = bf16_to_float(dims[i]);
  for (int span = 1; span < k_indexer_dims; span *= 2) {
    for (int i = 0; i < k_indexer_dims; ++i) {
      if ((i & span) != 0) continue;
      const float low = x[i];
      const float high = x[i + span];
      x[i] = op_add(low, high);
      x[i + span] = op_sub(low, high);
    }
  }
  for (int i = 0; i < k_indexer_dims; ++i) {
    dims[i] = bf16_code(op_mul(x[i], k_hadamard_factor));
  }
}

void quantise_v4_row(const std::uint16_t* nope, const std::uint16_t* rope, std::uint8_t* data,
                     std::uint8_t* scales) {
  for (int block = 0; block < k_v4_scales; ++block) {
    const std::uint16_t* in = nope + block * k_v4_scale_group;
    const float scale =
        block_scale(amax_bits(in, k_v4_scale_group), k_amax_floor_fp8, k_e4m3_max, true);
    scales[block] = e8m0_of_scale(scale);
    encode_e4m3_block(in, k_v4_scale_group, scale, data + block * k_v4_scale_group);
  }
  scales[k_v4_scales] = 0;
  std::memcpy(data + k_v4_rope_offset_bytes, rope, 2 * k_rope_dims);
}

void quantise_v32_row(const std::uint16_t* nope, const std::uint16_t* rope, ScaleRounding rounding,
                      std::uint8_t* row) {
  for (int block = 0; block < k_v32_nope_dims / k_v32_scale_group; ++block) {
    const std::uint16_t* in = nope + block * k_v32_scale_group;
    const float scale = block_scale(amax_bits(in, k_v32_scale_group), k_amax_floor_fp8, k_e4m3_max,
                                    rounding == ScaleRounding::power_of_two);
    store_float(scale, row + k_v32_scale_offset_bytes + 4 * block);
    encode_e4m3_block(in, k_v32_scale_group, scale, row + block * k_v32_scale_group);
  }
  std::memcpy(row + k_v32_rope_offset_bytes, rope, 2 * k_rope_dims);
}

void quantise_indexer_row(IndexerFormat format, ScaleRounding rounding, const std::uint16_t* dims,
                          std::uint8_t* values, std::uint8_t* scales) {
  if (format == IndexerFormat::bf16) {
    std::memcpy(values, dims, 2 * k_indexer_dims);
    return;
  }
  if (format == IndexerFormat::fp4) {
    quantise_fp4_row(dims, values, scales);
    return;
  }
  const float scale = block_scale(amax_bits(dims, k_indexer_dims), k_amax_floor_fp8, k_e4m3_max,
                                  rounding == ScaleRounding::power_of_two);
  store_float(scale, scales);
  encode_e4m3_block(dims, k_indexer_dims, scale, values);
}

float dequantise_indexer_row(IndexerFormat format, const std::uint8_t* values,
                             const std::uint8_t* scales, float* dims) {
  if (format == IndexerFormat::fp8) {
    for (int i = 0; i < k_indexer_dims; ++i) dims[i] = decode_e4m3(values[i]);
    float scale = 1.0F;
    if (scales != nullptr) std::memcpy(&scale, scales, sizeof scale);
    return scale;
  }
  if (format == IndexerFormat::fp4) {
    // One multiply a code and group, not one a value.
    for (int group = 0; group < k_indexer_fp4_scales; ++group) {
      const float scale = decode_e8m0(scales[group]);
      std::array<float, 16> scaled{};
      for (int code = 0; code < 16; ++code) {
        scaled[code] = decode_e2m1(static_cast<std::uint8_t>(code)) * scale;
      }
      const std::uint8_t* packed = values + group * k_indexer_fp4_group / 2;
      float* out = dims + group * k_indexer_fp4_group;
      for (int i = 0; i < k_indexer_fp4_group / 2; ++i) {
        out[2 * i] = scaled[packed[i] & 0xF];
        out[2 * i + 1] = scaled[packed[i] >> 4];
      }
    }
    return 1.0F;
  }
  for (int i = 0; i < k_indexer_dims; ++i) {
    std::uint16_t code = 0;
    std::memcpy(&code, values + 2 * i, sizeof code);
    dims[i] = bf16_to_float(code);
  }
  return 1.0F;
}

}  // namespace splitwave
