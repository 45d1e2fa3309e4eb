// Quantise, dequantise, pack, unpack: byte copies and single roundings.
#include "formats/kv_row.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "formats/bf16.h"
#include "formats/e8m0.h"
#include "formats/fp8.h"

namespace splitwave {
namespace {

constexpr int nope_dims(KvFormat f) {
  return f == KvFormat::v32 ? k_v32_nope_dims : k_v4_nope_dims;
}
constexpr int scale_group(KvFormat f) {
  return f == KvFormat::v32 ? k_v32_scale_group : k_v4_scale_group;
}

constexpr std::array<double, 256> k_e4m3_values = [] {
  std::array<double, 256> values{};
  for (std::size_t code = 0; code < values.size(); ++code) {
    values[code] = decode_e4m3(static_cast<std::uint8_t>(code));
  }
  return values;
}();

// NaN elements do not take part: one NaN must not take its group along.
float group_amax(std::span<const float> group) {
  float amax = k_amax_floor;
  for (const float v : group) amax = std::fabs(v) > amax ? std::fabs(v) : amax;
  return amax;
}

}  // namespace

KvRow quantise_row(KvFormat format, std::span<const float> values) {
  SPLITWAVE_CHECK(values.size() == static_cast<std::size_t>(qk_dims(format)),
                  "quantise_row takes qk_dims values");
  std::array<float, k_v32_qk_dims> rounded{};
  for (std::size_t i = 0; i < values.size(); ++i)
    rounded[i] = bf16_to_float(float_to_bf16(values[i]));
  KvRow row;
  const int group = scale_group(format);
  for (int g = 0; g * group < nope_dims(format); ++g) {
    const std::span<const float> in(rounded.data() + g * group, static_cast<std::size_t>(group));
    float scale = group_amax(in) / k_e4m3_max;
    if (format == KvFormat::v32) {
      row.scales_f32[static_cast<std::size_t>(g)] = scale;
    } else {
      const std::uint8_t code = encode_e8m0_ceil(scale);
      row.scales_e8m0[static_cast<std::size_t>(g)] = code;
      scale = decode_e8m0(code);
    }
    for (int i = 0; i < group; ++i) {
      row.codes[static_cast<std::size_t>(g * group + i)] =
          encode_e4m3(in[static_cast<std::size_t>(i)] / scale);
    }
  }
  for (int i = 0; i < k_rope_dims; ++i) {
    row.rope[static_cast<std::size_t>(i)] =
        float_to_bf16(values[static_cast<std::size_t>(nope_dims(format) + i)]);
  }
  return row;
}

void dequantise_row(KvFormat format, const KvRow& row, std::span<double> values) {
  SPLITWAVE_CHECK(values.size() == static_cast<std::size_t>(qk_dims(format)),
                  "dequantise_row gives qk_dims values");
  const auto nope = static_cast<std::size_t>(nope_dims(format));
  const auto group = static_cast<std::size_t>(scale_group(format));
  for (std::size_t g = 0; g < nope / group; ++g) {
    const double scale =
        format == KvFormat::v4 ? decode_e8m0(row.scales_e8m0[g]) : row.scales_f32[g];
    for (std::size_t i = g * group; i < (g + 1) * group; ++i) {
      const double exact = k_e4m3_values[row.codes[i]] * scale;
      values[i] = format == KvFormat::v4 ? exact : bf16_to_float(double_to_bf16(exact));
    }
  }
  for (std::size_t i = 0; i < k_rope_dims; ++i) values[nope + i] = bf16_to_float(row.rope[i]);
}

void pack_row(KvFormat format, const KvRow& row, const MutableCacheView& cache, std::int64_t slot) {
  SPLITWAVE_CHECK(is_valid_slot(cache.view(), slot), "pack_row takes a slot of the pool");
  const SlotOffsets at = slot_offsets(format, cache.page_size, cache.page_stride_bytes, slot);
  std::memcpy(cache.base + at.codes, row.codes.data(), static_cast<std::size_t>(nope_dims(format)));
  std::memcpy(cache.base + at.rope, row.rope.data(), sizeof row.rope);
  if (format == KvFormat::v32) {
    std::memcpy(cache.base + at.scales, row.scales_f32.data(), sizeof row.scales_f32);
  } else {
    std::memcpy(cache.base + at.scales, row.scales_e8m0.data(), sizeof row.scales_e8m0);
    cache.base[at.scales + k_v4_scales] = 0;
  }
}

KvRow unpack_row(KvFormat format, const CacheView& cache, std::int64_t slot) {
  SPLITWAVE_CHECK(is_valid_slot(cache, slot), "unpack_row takes a slot of the pool");
  const SlotOffsets at = slot_offsets(format, cache.page_size, cache.page_stride_bytes, slot);
  KvRow row;
  std::memcpy(row.codes.data(), cache.base + at.codes, static_cast<std::size_t>(nope_dims(format)));
  std::memcpy(row.rope.data(), cache.base + at.rope, sizeof row.rope);
  if (format == KvFormat::v32) {
    std::memcpy(row.scales_f32.data(), cache.base + at.scales, sizeof row.scales_f32);
  } else {
    std::memcpy(row.scales_e8m0.data(), cache.base + at.scales, sizeof row.scales_e8m0);
  }
  return row;
}

Status check_cache_geometry(KvFormat format, const CacheView& cache, std::int64_t bytes) {
  if (cache.page_size < 1) {
    return bad_input("page_size is " + std::to_string(cache.page_size) + "; it must be at least 1");
  }
  if (cache.pages < 0) {
    return bad_input("pages is " + std::to_string(cache.pages) + "; it must be at least 0");
  }
  const std::int64_t used = page_bytes(format, cache.page_size);
  if (cache.page_stride_bytes < used || cache.page_stride_bytes % 8 != 0) {
    return bad_input("page_stride_bytes is " + std::to_string(cache.page_stride_bytes) +
                     "; it must be a multiple of 8 and at least " + std::to_string(used) +
                     ", the bytes of a page of " + std::to_string(cache.page_size) + " tokens");
  }
  // The last page needs its own bytes only, not its stride.
  const bool fits = cache.pages == 0 ||
                    (bytes >= used && cache.pages - 1 <= (bytes - used) / cache.page_stride_bytes);
  if (!fits) {
    return bad_input("the cache holds " + std::to_string(bytes) + " bytes, too few for " +
                     std::to_string(cache.pages) + " pages of " + std::to_string(used) +
                     " bytes at stride " + std::to_string(cache.page_stride_bytes));
  }
  return {};
}

Expected<KvRow> read_row(KvFormat format, const CacheView& cache, std::int64_t bytes,
                         std::int64_t slot) {
  if (Status status = check_cache_geometry(format, cache, bytes); !status.ok()) {
    return status.error();
  }
  if (!is_valid_slot(cache, slot)) {
    return bad_input("slot " + std::to_string(slot) + " is outside the pool of " +
                     std::to_string(cache.pages) + " pages of " + std::to_string(cache.page_size));
  }
  return unpack_row(format, cache, slot);
}

}  // namespace splitwave
