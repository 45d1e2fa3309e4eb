// What a decode launch is given. Owns the parameter blocks that every kernel family, the schedule
// and the combine step share; plain data, so that the host fills them without CUDA headers. The
// host side is src/runtime/cuda_backend.cpp; device code reads them from constant memory
// (__grid_constant__).
#pragma once

#include <cstdint>

#include "splitwave/layout.h"

namespace splitwave::cuda {

// slot / page_size without a division: (slot * multiplier) >> shift, exact for slot < 2^31.
struct PageDivisor {
  std::uint32_t page_size = 1;
  std::uint32_t multiplier = 1U << 31;
  std::uint32_t shift = 31;
};

[[nodiscard]] constexpr PageDivisor make_page_divisor(std::uint32_t page_size) {
  std::uint32_t log2 = 0;
  while ((std::uint64_t{1} << log2) < page_size) ++log2;
  const std::uint64_t power = std::uint64_t{1} << (31 + log2);
  const std::uint64_t multiplier = (power + page_size - 1) / page_size;
  return {page_size, static_cast<std::uint32_t>(multiplier), 31 + log2};
}

// One paged cache. A slot is valid when 0 <= slot < slots_end.
struct CacheParams {
  const std::uint8_t* base = nullptr;
  std::int64_t page_stride_bytes = 0;
  std::int64_t scales_offset_bytes = 0;  // V4: page_size * 576; V3.2: unused
  PageDivisor divisor;
  std::int32_t slots_end = 0;     // min(pages * page_size, 2^31 - 1)
  std::int32_t is_16_aligned = 1; // every row starts at a multiple of 16 bytes, else of 8
};

// One index list, int32 [rows, width].
struct ListParams {
  const std::int32_t* slots = nullptr;
  std::int64_t row_stride = 0;
  const std::int32_t* lengths = nullptr;  // [rows]; null: last valid entry + 1
  std::int32_t width = 0;
};

// One unit of work: a head block of a row over the chunks [chunk_begin, chunk_end).
//   slot < 0                       the whole row: the CTA folds and writes the result
//   slot >= 0 and chunk_begin == 0 the row's prefix: folded, then stored in partial `slot`
//   slot >= 0 and chunk_begin > 0  chunk c is stored unfolded in partial slot + c - chunk_begin
struct Item {
  std::int32_t row = -1;  // -1: no more items
  std::int32_t head_block = 0;
  std::int32_t chunk_begin = 0;
  std::int32_t chunk_end = 0;
  std::int32_t slot = -1;
  std::int32_t length_main = 0;   // effective lengths of the row's list
  std::int32_t length_total = 0;  //   main + extra
  std::int32_t piece_chunks = 1;  // slot >= 0: chunks of every piece of the row but its last
};
static_assert(sizeof(Item) == 32, "two 16-byte loads");

enum class ItemMapKind : std::int32_t {
  pieces,  // computed: every (row, head block) pair is cut into `pieces` pieces
  list,    // made on the device by the schedule kernel from the lengths
};

// How a CTA finds its items. CTA b of a grid of g takes items b, b + g, b + 2g, ...
struct ItemMap {
  ItemMapKind kind = ItemMapKind::pieces;
  std::int32_t items = 0;         // pieces: their number. list: unused
  std::int32_t pairs = 0;         // rows * head blocks
  std::int32_t chunks = 1;        // chunks of a full-width row
  std::int32_t pieces = 1;        // of a pair; 1: whole rows, nothing to combine
  std::int32_t piece_chunks = 1;  // chunks of a piece (the last may have fewer)
  std::int32_t stored = 0;        // partials of a pair: 1 + chunks - piece_chunks, 0 for whole rows
  const Item* list = nullptr;
  const std::int32_t* list_count = nullptr;
};

// Where partial results live. partial p, head h of its block:
//   o  fp32 [slots, block_heads, 512], not normalised, relative to m
//   ml fp32 pairs [slots, block_heads]: m in log2 units, l
// The last gridDim.x slots are each CTA's own scratch for folding whole rows.
struct PartialParams {
  float* o = nullptr;
  float* ml = nullptr;
  std::int32_t scratch_slot = 0;  // of CTA 0
  // [rows, head blocks, k_tickets_of_pair], zero before and after a launch: the last CTA of a pair
  // folds its partials (VariantLauncher::folds_partials). Null: the combine kernel does.
  std::uint32_t* tickets = nullptr;
};
inline constexpr int k_tickets_of_pair = 8;  // one a PV warp at most

// A row's partials, written by the schedule kernel for the combine step.
struct RowPartials {
  std::int32_t slot = 0;    // of head block 0; head block b starts at slot + b * stored
  std::int32_t stored = 0;  // 0: the row was written whole
};

struct DecodeParams {
  std::int32_t rows = 0;
  std::int32_t heads = 0;
  std::int32_t head_blocks = 0;
  std::int32_t block_heads = 0;
  std::int32_t chunk_rows = 0;  // a multiple of the variant's tile
  float softmax_scale = 0;

  const std::uint16_t* q = nullptr;  // bf16 [rows, heads, d_qk]
  std::int64_t q_row_stride = 0;     // elements
  std::int64_t q_head_stride = 0;
  std::uint16_t* out = nullptr;  // bf16 [rows, heads, 512]
  std::int64_t out_row_stride = 0;
  std::int64_t out_head_stride = 0;
  float* lse = nullptr;  // fp32 [rows, heads] or null
  std::int64_t lse_row_stride = 0;
  const float* sink = nullptr;  // fp32 [heads] or null

  CacheParams cache[2];  // main, extra
  ListParams list[2];
  ItemMap map;
  PartialParams partials;
  RowPartials* row_partials = nullptr;  // [rows], list maps only
};

}  // namespace splitwave::cuda
