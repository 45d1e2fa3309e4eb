// Slots from page tables: a block is a page of 128 window rows, 32 C4 rows or one C128 row.
#include "model/token_batch.h"

#include <algorithm>

namespace splitwave::model {

void TokenBatch::clear() {
  tokens = 0;
  ids.clear();
  positions.clear();
  sequences.clear();
  offsets.assign(1, 0);
  piece_start.clear();
  piece_sequence.clear();
}

void TokenBatch::add_piece(SequenceId sequence, int start, std::span<const std::int32_t> added) {
  for (std::size_t i = 0; i < added.size(); ++i) {
    ids.push_back(added[i]);
    positions.push_back(start + static_cast<int>(i));
    sequences.push_back(sequence);
  }
  tokens += static_cast<int>(added.size());
  offsets.push_back(tokens);
  piece_start.push_back(start);
  piece_sequence.push_back(sequence);
}

void TokenBatch::build_lists(const KvStore& store, int window_tokens, int positions_max,
                             const std::vector<std::vector<std::int32_t>>& read_blocks) {
  const auto n = static_cast<std::size_t>(tokens);
  window = window_tokens;
  c128_width = positions_max / k_block_tokens;
  pages_stride = (positions_max + k_block_tokens - 1) / k_block_tokens;
  window_slots.assign(n, -1);
  c4_slots.assign(n, -1);
  c128_slots.assign(n, -1);
  window_list.assign(n * static_cast<std::size_t>(window), -1);
  window_lengths.assign(n, 0);
  c128_list.assign(n * static_cast<std::size_t>(c128_width), -1);
  c128_lengths.assign(n, 0);
  c4_lengths.assign(n, 0);
  pages.assign(n * static_cast<std::size_t>(pages_stride), -1);
  for (int piece = 0; piece < pieces(); ++piece) {
    const auto at = static_cast<std::size_t>(piece);
    const std::vector<std::int32_t>& own = store.blocks(piece_sequence[at]);
    const std::vector<std::int32_t>& read = read_blocks[at];
    for (int t = offsets[at]; t < offsets[at + 1]; ++t) {
      const auto row = static_cast<std::size_t>(t);
      const int p = positions[row];
      const auto block = static_cast<std::size_t>(p / k_block_tokens);
      const std::int64_t own_block = own[block];
      window_slots[row] = own_block * k_block_tokens + p % k_block_tokens;
      if (p % 4 == 3) c4_slots[row] = own_block * k_c4_block_rows + p % k_block_tokens / 4;
      if (p % k_block_tokens == k_block_tokens - 1) c128_slots[row] = own_block;
      const int first = std::max(0, p - window + 1);
      for (int q = first; q <= p; ++q) {
        window_list[row * static_cast<std::size_t>(window) + static_cast<std::size_t>(q - first)] =
            read[static_cast<std::size_t>(q / k_block_tokens)] * k_block_tokens +
            q % k_block_tokens;
      }
      window_lengths[row] = p - first + 1;
      c4_lengths[row] = (p + 1) / 4;
      c128_lengths[row] = (p + 1) / k_block_tokens;
      for (std::size_t b = 0; b < read.size(); ++b) {
        pages[row * static_cast<std::size_t>(pages_stride) + b] = read[b];
        if (static_cast<int>(b) < c128_lengths[row]) {
          c128_list[row * static_cast<std::size_t>(c128_width) + b] = read[b];
        }
      }
    }
  }
}

}  // namespace splitwave::model
