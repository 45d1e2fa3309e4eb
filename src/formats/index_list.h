// The rule of a row's length, written once for the host: which entries of an index list a row uses.
// Called by the reference, the synthetic problems and the contract suite; the kernels have their
// own and are compared with it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "formats/page_layout.h"

namespace splitwave {

[[nodiscard]] inline std::int32_t list_entry(const IndexList& list, std::int64_t row,
                                             std::int64_t position) {
  return list.slots[row * list.row_stride + position];
}

// Entries [0, length) are candidates, the invalid ones among them are skipped, later ones are never
// looked at. Given: clamped to 0..width. Not given: the last valid entry + 1.
[[nodiscard]] inline int row_length(const CacheView& cache, const IndexList& list, int width,
                                    std::int64_t row) {
  if (list.lengths != nullptr) return std::clamp(list.lengths[row], 0, width);
  int length = width;
  while (length > 0 && !is_valid_slot(cache, list_entry(list, row, length - 1))) --length;
  return length;
}

}  // namespace splitwave
