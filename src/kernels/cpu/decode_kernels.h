// The seam between the decode engine (scheduling, lists, workspace) and one ISA's arithmetic. Owns
// DecodeKernels, a table of functions that attend one tile of KV rows, and the tile's geometry.
// Implemented by decode_simd.cpp (once a Highway target) and decode_avx512bf16.cpp; called by
// decode_engine.cpp only. Nothing here knows about batches, threads or caches.
//
// Memory of one item, all fp32 unless the table says otherwise (bf16 tables use the same bytes):
//   q       panel p (64 dims) -> head group -> [64 dims][heads of the group]
//   raw     the tile's rows as they lie in the pool, k_raw_row_bytes apart
//   tile    panel p -> [tile_rows_capacity][64 dims]; a row's panels are tile_stride floats apart
//   scores  [tile_rows_capacity][heads_padded], overwritten by the probabilities
//   partial m, l [heads_padded]; o panel p -> [heads][64 dims], not normalised
#pragma once

#include <cstdint>

#include "splitwave/layout.h"

namespace splitwave::cpu {

inline constexpr int k_panel_dims = 64;
inline constexpr int k_value_panels = k_value_dims / k_panel_dims;
inline constexpr int k_head_pad = 16;      // heads_padded is a multiple: the widest ISA's lanes
inline constexpr int k_tile_rows_min = 8;
inline constexpr int k_tile_rows_max = 512;
inline constexpr int k_prefetch_rows_max = 256;

// A staged row: any format's bytes, whole cache lines.
inline constexpr int k_raw_row_bytes = 704;
static_assert(k_raw_row_bytes >= k_v32_row_bytes && k_raw_row_bytes >= k_v4_row_bytes);
static_assert(k_raw_row_bytes % 64 == 0);

// One KV row in its pool. scales: V4 the row's 8 bytes in the page's trailer; V3.2 unused.
struct RowRef {
  const std::uint8_t* data = nullptr;
  const std::uint8_t* scales = nullptr;
};

// A running softmax over some keys of one row and head block: m the maximum of the scaled scores in
// base 2, l the sum of 2^(score - m), o the sum of 2^(score - m) * v.
struct Partial {
  float* m = nullptr;
  float* l = nullptr;
  float* o = nullptr;
};

struct TileTask {
  KvFormat format = KvFormat::v4;
  int heads = 0;         // heads of the block
  int heads_padded = 0;  // rounded up to k_head_pad
  int tile_rows_capacity = 0;  // rows of a panel of the tile, even
  const RowRef* rows = nullptr;  // row_count rows of this tile, then rows that come later
  int row_count = 0;             // >= 1
  int rows_known = 0;            // >= row_count: entries of rows that may be prefetched
  int prefetch = 0;              // rows after the tile to fetch into L2 during the products
  float scale_log2 = 0;          // softmax scale * log2(e)
  bool is_first = false;         // the partial's content is ignored
  const float* q = nullptr;
  float* tile = nullptr;
  float* scores = nullptr;
  float* alpha = nullptr;  // scratch [heads_padded]
  float* panel = nullptr;       // scratch [tile_rows_capacity][64], of tables with other operands
  std::uint8_t* raw = nullptr;  // scratch [tile_rows_capacity][k_raw_row_bytes]
  Partial partial;
};

struct FinishTask {
  int heads = 0;
  int heads_padded = 0;
  bool is_empty = false;        // no valid key: out 0, lse +inf
  const float* sink = nullptr;  // [heads] or null
  std::uint16_t* out = nullptr;
  std::int64_t out_head_stride = 0;
  float* lse = nullptr;  // [heads] or null
  Partial partial;
};

struct DecodeKernels {
  const char* isa = nullptr;         // "avx512", "avx2", "neon", "scalar", "avx512_bf16"
  const char* arithmetic =
      nullptr;  // what fixes the bits: tables of one arithmetic are bitwise equal
  // q: bf16 [heads] with the stride, dims contiguous; packed: panels of 64 dims, pad heads zero.
  void (*pack_q)(const std::uint16_t* q, std::int64_t head_stride, int heads, int heads_padded,
                 int dims, float* packed) = nullptr;
  void (*attend_tile)(const TileTask& task) = nullptr;
  // into := merge(into, from), the contract's one merge function; both non-empty.
  void (*merge)(int heads, int heads_padded, const Partial& into, const Partial& from) = nullptr;
  void (*finish)(const FinishTask& task) = nullptr;
  // The ISA's peak: independent multiply-adds on registers, nothing else. Returns how many floating
  // point operations were done; the caller times it.
  double (*multiply_add_loop)(std::int64_t iterations) = nullptr;

  // Parts of attend_tile, for tables that differ in the products only.
  void (*stage_rows)(const TileTask& task) = nullptr;
  void (*dequantize_panel)(const TileTask& task, int panel, float* to) = nullptr;
  void (*softmax_tile)(const TileTask& task) = nullptr;
  // Prefetches the share-th of `shares` equal parts of the rows after the tile.
  void (*prefetch_share)(const TileTask& task, int share, int shares) = nullptr;
};

// Tables compiled into this build that the processor can run, fastest first; never empty.
struct KernelList {
  static constexpr int k_max = 5;
  const DecodeKernels* tables[k_max] = {};
  int count = 0;
};
[[nodiscard]] const KernelList& runnable_kernels();

// Every table of this build, runnable or not, for listings.
struct KernelListing {
  const char* isa = nullptr;
  const char* arithmetic = nullptr;
  bool is_runnable = false;
};
struct KernelListings {
  static constexpr int k_max = 5;
  KernelListing items[k_max] = {};
  int count = 0;
};
[[nodiscard]] const KernelListings& all_kernels();

}  // namespace splitwave::cpu
