// The chunk table: where a row's KV list is cut. Owns the one rule that decides a row's bits: list
// (main, then extra) positions [0, length) are cut at multiples of the class's chunk length, which
// depends on the format, the declared widths and the numerics class, never on the batch. Called by
// the planner and by every backend.
#pragma once

#include <algorithm>
#include <cstdint>

#include "splitwave/problem.h"

namespace splitwave {

// Rows of one chunk for a problem of these widths (main + extra). A multiple of 128.
// First values from the measurements in docs/kernels: one chunk where head blocks alone fill the
// machine (V4-Flash 640, V4-Pro 1152), shorter where lists are long.
[[nodiscard]] constexpr int class_chunk_rows(KvFormat format, int main_width, int extra_width,
                                             NumericsClass numerics) {
  constexpr int k_latency_chunk_rows = 128;
  constexpr int k_v4_single_chunk_rows_max = 1152;
  constexpr int k_v4_long_chunk_rows = 256;
  constexpr int k_v32_chunk_rows = 512;
  if (numerics == NumericsClass::latency) return k_latency_chunk_rows;
  const std::int64_t width = std::int64_t{main_width} + extra_width;
  if (format == KvFormat::v32) return k_v32_chunk_rows;
  if (width > k_v4_single_chunk_rows_max) return k_v4_long_chunk_rows;
  return static_cast<int>(std::max<std::int64_t>(128, (width + 127) / 128 * 128));
}

// Chunks of a row of that length; 0 for an empty row.
[[nodiscard]] constexpr std::int64_t chunk_count(std::int64_t length, int chunk_rows) {
  return (length + chunk_rows - 1) / chunk_rows;
}

}  // namespace splitwave
