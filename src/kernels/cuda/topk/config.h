// Top-k as a tournament of tiles. Owns the tile sizes and the arithmetic of its levels: at level 0
// a row's logits are cut into tiles of fixed size, a CTA keeps the exact k best of its tile in
// index order, and the survivors of all tiles are the next level's row; the level at which one tile
// is left emits the result. Every element is distinct under (value, index), so the result does not
// depend on tiles, levels, CTAs or batch.
#pragma once

#include <cstdint>

#include "splitwave/ops.h"

namespace splitwave::cuda {

struct TopKTile {
  int threads = 512;
  int items = 16;  // keys of a thread, in registers
  [[nodiscard]] constexpr int size() const { return threads * items; }
};
// Small: two or three CTAs an SM. Large: where a small tile would keep more than an eighth of
// itself, and for every later level.
inline constexpr TopKTile k_topk_small = {512, 16};
inline constexpr TopKTile k_topk_large = {1024, 16};
inline constexpr int k_topk_small_k_max = 1024;
inline constexpr int k_topk_levels_max = 6;
static_assert(k_topk_large.size() >= 4 * k_topk_max, "a level must shrink its row");

// One level of a call: what its kernel needs to find its row's size.
struct TopKLevels {
  int count = 0;                     // launches
  int tile[k_topk_levels_max] = {};  // tile size of each level
  int k = 0;
  std::int64_t length_max = 0;
};

// Elements of a row at `level`, given its length; 0 when an earlier level has emitted it already.
#if defined(__CUDACC__)
__host__ __device__
#endif
    inline std::int64_t
    topk_level_size(const TopKLevels& levels, int level, std::int64_t length) {
  std::int64_t size = length;
  for (int i = 0; i < level; ++i) {
    const std::int64_t tiles = (size + levels.tile[i] - 1) / levels.tile[i];
    if (tiles <= 1) return 0;
    size = tiles * levels.k;
  }
  return size;
}

[[nodiscard]] inline TopKLevels topk_levels(std::int64_t length_max, int k) {
  TopKLevels levels;
  levels.k = k;
  levels.length_max = length_max;
  std::int64_t size = length_max;
  do {
    const bool is_small = levels.count == 0 && k <= k_topk_small_k_max;
    levels.tile[levels.count] = is_small ? k_topk_small.size() : k_topk_large.size();
    const std::int64_t tiles = (size + levels.tile[levels.count] - 1) / levels.tile[levels.count];
    ++levels.count;
    size = tiles * k;
    if (tiles <= 1) break;
  } while (levels.count < k_topk_levels_max);
  return levels;
}

// Survivors that a row stores after `level` (its tiles times k): workspace entries of 8 bytes.
[[nodiscard]] inline std::int64_t topk_survivors(const TopKLevels& levels, int level) {
  const std::int64_t size = topk_level_size(levels, level, levels.length_max);
  return (size + levels.tile[level] - 1) / levels.tile[level] * levels.k;
}

}  // namespace splitwave::cuda
