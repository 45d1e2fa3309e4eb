// The indexer's logits kernels as data. Owns every number that one is compiled with; one .cu a pair
// of key and query types instantiates its head tiles. All of them are one numerics class: a dot
// product is eight m16n8k16 steps in ascending order, heads are added tile by tile, then across the
// four lanes of a quad; neither the page path nor the number of stages nor the grid changes a bit.
#pragma once

#include "splitwave/ops.h"

namespace splitwave::cuda {

inline constexpr int k_logit_tile_keys = 16;  // M of the matrix instruction
inline constexpr int k_logit_warps = 8;
inline constexpr int k_logit_threads = 32 * k_logit_warps;
inline constexpr int k_logit_steps = k_indexer_dims / 16;

struct IndexerConfig {
  IndexerFormat keys = IndexerFormat::fp8;
  IndexerQuery query = IndexerQuery::native;
  int head_tiles = 8;           // of 8 heads each
  bool is_page_aligned = true;  // page_size is a multiple of 16: a tile lies in one page
  int stages = 5;               // tiles in flight a warp
};

// Stages: within 99 KB for sm_86, 89, 120.
[[nodiscard]] constexpr int logit_stages(IndexerFormat keys) {
  return keys == IndexerFormat::bf16 ? 2 : keys == IndexerFormat::fp8 ? 5 : 8;
}
// One tile in shared memory: [0, 16 * value bytes) values, 16-byte chunks of odd keys exchanged in
// halves; then 16 words: fp32 scale, four e8m0, or fp32 1 or NaN (bf16).
[[nodiscard]] constexpr int logit_stage_bytes(IndexerFormat keys) {
  return k_logit_tile_keys * (indexer_value_bytes(keys) + 4);
}
[[nodiscard]] constexpr int logit_shared_bytes(const IndexerConfig& c) {
  return k_logit_warps * c.stages * logit_stage_bytes(c.keys);
}
// The same as constants, for device code, which may not call host constexpr functions.
template <IndexerFormat kFormat>
inline constexpr int k_indexer_value_bytes = indexer_value_bytes(kFormat);
template <IndexerFormat kFormat>
inline constexpr int k_logit_stage_bytes = logit_stage_bytes(kFormat);
static_assert(logit_shared_bytes({IndexerFormat::fp8, IndexerQuery::native, 8, true, 5}) <=
              99 * 1024);
static_assert(logit_shared_bytes({IndexerFormat::bf16, IndexerQuery::bf16, 8, true, 2}) <=
              99 * 1024);

}  // namespace splitwave::cuda
