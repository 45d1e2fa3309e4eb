// One token's latent vector in either cache format: quantise, dequantise, pack into a page, unpack.
// Owns the arithmetic of the formats; page_layout.h owns the addresses. Host only, clear before
// fast: the reference, the cache-write reference, the synthetic problems and the tests call it.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "formats/page_layout.h"
#include "splitwave/status.h"

namespace splitwave {

// The stored parts of one token, apart from where they lie. V3.2 uses 512 codes and scales_f32; V4
// the first 448 codes and scales_e8m0.
struct KvRow {
  std::array<std::uint8_t, k_v32_nope_dims> codes{};
  std::array<float, 4> scales_f32{};
  std::array<std::uint8_t, k_v4_scales> scales_e8m0{};
  std::array<std::uint16_t, k_rope_dims> rope{};
};

// The floor of a group's largest magnitude before it becomes a scale (DeepSeek's quantiser).
inline constexpr float k_amax_floor = 1e-4F;

// Quantises qk_dims(format) values. They are rounded to bf16 first, as the writers of these caches
// do; then for each group amax = max(|value|, 1e-4), scale = amax / 448 (V3.2: as fp32; V4: the
// least power of two not below it), code = e4m3(value / scale). RoPE dims stay bf16. A NaN stays a
// NaN of its own dim; an inf makes its whole group NaN.
[[nodiscard]] KvRow quantise_row(KvFormat format, std::span<const float> values);

// The values that attention uses, exactly. V4: code * 2^(e - 127). V3.2: one rounding of
// code * scale to bf16. values holds qk_dims(format) elements.
void dequantise_row(KvFormat format, const KvRow& row, std::span<double> values);

// slot must be valid for the pool. The V4 pad byte is written as 0 and ignored when read.
void pack_row(KvFormat format, const KvRow& row, const MutableCacheView& cache, std::int64_t slot);
[[nodiscard]] KvRow unpack_row(KvFormat format, const CacheView& cache, std::int64_t slot);

// Refuses a geometry that does not fit in `bytes` bytes or breaks the rules of CacheView (alignment
// of the base excepted: the host codec copies bytes).
[[nodiscard]] Status check_cache_geometry(KvFormat format, const CacheView& cache,
                                          std::int64_t bytes);

// unpack_row for untrusted input: any slot, any geometry, any bytes.
[[nodiscard]] Expected<KvRow> read_row(KvFormat format, const CacheView& cache, std::int64_t bytes,
                                       std::int64_t slot);

}  // namespace splitwave
