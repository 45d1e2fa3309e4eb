// The tokens of one pass: pieces of sequences, none of which crosses a block's end. Owns TokenBatch
// and the per-token lists that every layer shares. Built by the engine, read by ForwardPass.
#pragma once

#include <cstdint>
#include <vector>

#include "model/kv_store.h"

namespace splitwave::model {

struct TokenBatch {
  int tokens = 0;
  std::vector<std::int32_t> ids, positions, sequences;  // [tokens]
  // Pieces: tokens [offsets[s], offsets[s + 1]) of sequence piece_sequence[s] from piece_start[s].
  std::vector<std::int32_t> offsets, piece_start, piece_sequence;

  // Where a token's row, or the entry that it closes, is written; -1: it closes none.
  std::vector<std::int64_t> window_slots, c4_slots, c128_slots;
  // The window's rows [tokens, window], the C128 entries [tokens, c128_width], and how many.
  std::vector<std::int32_t> window_list, window_lengths, c128_list, c128_lengths;
  // Entries of ratio 4 so far, and the blocks of the token's sequence as a page table.
  std::vector<std::int32_t> c4_lengths, pages;
  int window = 0, c128_width = 0, pages_stride = 0;

  [[nodiscard]] int pieces() const { return static_cast<int>(piece_sequence.size()); }
  void clear();
  void add_piece(SequenceId sequence, int start, std::span<const std::int32_t> tokens);
  // Fills the lists from the pieces. blocks_of(s) is the page table that piece s reads by: the
  // sequence's own.
  void build_lists(const KvStore& store, int window_tokens, int positions_max,
                   const std::vector<std::vector<std::int32_t>>& read_blocks);
};

}  // namespace splitwave::model
