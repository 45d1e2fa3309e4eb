// How the chunks of one (row, head block) are shared out. Owns the choice of piece length: a piece
// is a run of chunks that one CTA takes; the first piece of a row is folded as it goes, every other
// chunk is stored for the combine step. Where a row is cut into chunks is plan/chunks.h's and fixes
// its bits; the pieces only move time and memory. Called by src/runtime for CUDA launches.
#pragma once

#include <algorithm>
#include <cstdint>

namespace splitwave {

struct PieceCut {
  int piece_chunks = 1;
  int pieces = 1;  // of a pair; 1: the CTA writes the row's result, nothing is stored
  int stored = 0;  // partials of a pair: the folded first piece and each later chunk
};

[[nodiscard]] constexpr PieceCut cut_into(int chunks, int piece_chunks) {
  if (piece_chunks >= chunks) return {std::max(1, chunks), 1, 0};
  return {piece_chunks, (chunks + piece_chunks - 1) / piece_chunks, 1 + chunks - piece_chunks};
}

// The piece length with the least estimated time. pairs: rows * head blocks; slots: CTAs that run
// at once; partial_bytes: of one stored partial. Costs in KV rows of one CTA (about 15 ns each on
// an H200 at 16 heads, [est]): an item's prologue and epilogue, the combine step (combine_rows: a
// launch of its own, or less where the decode kernel folds), partials out and in again at about
// 3 TB/s.
inline constexpr double k_combine_launch_rows = 192;
inline constexpr double k_combine_fold_rows = 64;
[[nodiscard]] constexpr PieceCut choose_pieces(std::int64_t pairs, int chunks, int chunk_rows,
                                               std::int64_t slots, std::int64_t partial_bytes,
                                               double combine_rows = k_combine_launch_rows) {
  constexpr double k_item_rows = 128;
  constexpr double k_rows_per_byte = 2.0 / 3e12 / 15e-9;
  PieceCut best = cut_into(chunks, chunks);
  double best_rows = -1;
  for (int piece = std::max(1, chunks); piece >= 1; --piece) {
    const PieceCut cut = cut_into(chunks, piece);
    const std::int64_t rounds = (pairs * cut.pieces + slots - 1) / slots;
    double rows = static_cast<double>(rounds) *
                  (k_item_rows + static_cast<double>(cut.piece_chunks) * chunk_rows);
    if (cut.stored > 0) {
      rows +=
          combine_rows + static_cast<double>(pairs * cut.stored * partial_bytes) * k_rows_per_byte;
    }
    if (best_rows < 0 || rows < best_rows) {
      best = cut;
      best_rows = rows;
    }
  }
  return best;
}

// Most partials that a length-aware schedule stores, for at most max_pairs pairs of at most
// `chunks` chunks. It cuts only pairs longer than piece = max(1, floor(work / slots)) chunks, so k
// cut pairs of n chunks imply piece >= floor(k (n - 1) / slots), and fewer than 2 slots pairs are
// cut once piece > 1: the bound grows with the machine and the width, not with rows.
[[nodiscard]] constexpr std::int64_t scheduled_partials_max(std::int64_t max_pairs, int chunks,
                                                            std::int64_t slots) {
  std::int64_t most = 0;
  for (int n = 2; n <= chunks; n = n < 64 ? n + 1 : n + n / 16) {
    const int longest = std::min(chunks, n < 64 ? n : n + n / 16);
    for (std::int64_t k = 1; k <= std::min(max_pairs, 2 * slots); ++k) {
      const std::int64_t piece = std::max<std::int64_t>(1, k * (n - 1) / slots);
      if (piece < longest) most = std::max(most, k * (longest - piece + 1));
    }
  }
  return most;
}

}  // namespace splitwave
