// From index lists to KV rows. Owns RowEntries (one row's lists with their effective lengths) and
// EntryCursor (walks list positions and yields the valid ones). The rules are the contract's: main
// first, then extra; lengths clamped; negative slots and slots beyond the pool skipped, never read.
// Called by decode_engine.cpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/decode_kernels.h"
#include "splitwave/problem.h"

namespace splitwave::cpu {

// Exact division of 32-bit numbers by a run-time constant, by one 64-bit multiplication: a hardware
// division an entry would cost as much as the entry's dequantisation.
class Divider {
 public:
  explicit Divider(std::uint32_t divisor)
      : divisor_(divisor), reciprocal_(divisor > 1 ? ~std::uint64_t{0} / divisor + 1 : 0) {}
  [[nodiscard]] std::uint32_t quotient(std::uint32_t n) const {
    if (divisor_ == 1) return n;
    __extension__ using uint128 = unsigned __int128;
    return static_cast<std::uint32_t>((uint128{reciprocal_} * n) >> 64);
  }
  [[nodiscard]] std::uint32_t divisor() const { return divisor_; }

 private:
  std::uint32_t divisor_;
  std::uint64_t reciprocal_;  // ceil(2^64 / divisor): exact quotients for every 32-bit n
};

// A pool, ready to look slots up.
class Pool {
 public:
  Pool(KvFormat format, const CacheView& view)
      : format_(format),
        base_(view.base),
        slots_(view.pages * view.page_size),
        stride_bytes_(view.page_stride_bytes),
        scales_offset_bytes_(std::int64_t{view.page_size} * k_v4_data_bytes),
        page_(static_cast<std::uint32_t>(view.page_size)) {}

  [[nodiscard]] bool is_valid(std::int32_t slot) const { return slot >= 0 && slot < slots_; }

  [[nodiscard]] RowRef row(std::int32_t slot) const {
    const auto index = static_cast<std::uint32_t>(slot);
    const std::uint32_t page = page_.quotient(index);
    const std::uint32_t offset = index - page * page_.divisor();
    const std::uint8_t* const start = base_ + page * stride_bytes_;
    if (format_ == KvFormat::v32) return {start + std::int64_t{offset} * k_v32_row_bytes, nullptr};
    return {start + std::int64_t{offset} * k_v4_data_bytes,
            start + scales_offset_bytes_ + std::int64_t{offset} * k_v4_scale_bytes};
  }

 private:
  KvFormat format_;
  const std::uint8_t* base_;
  std::int64_t slots_;
  std::int64_t stride_bytes_;
  std::int64_t scales_offset_bytes_;
  Divider page_;
};

// The effective length of a row's list: its given length clamped to the width, or its last valid
// entry + 1.
[[nodiscard]] inline int effective_length(const Pool& pool, const IndexList& list, int width,
                                          int row) {
  if (list.lengths != nullptr) return std::clamp(list.lengths[row], 0, width);
  if (width == 0) return 0;
  const std::int32_t* const slots = list.slots + row * list.row_stride;
  int length = width;
  while (length > 0 && !pool.is_valid(slots[length - 1])) --length;
  return length;
}

struct RowEntries {
  const std::int32_t* main_slots = nullptr;
  const std::int32_t* extra_slots = nullptr;
  int main_length = 0;
  int extra_length = 0;

  [[nodiscard]] std::int64_t length() const { return std::int64_t{main_length} + extra_length; }
};

// Yields the valid rows of positions [begin, end) in order.
class EntryCursor {
 public:
  EntryCursor(const RowEntries& entries, const Pool& main_pool, const Pool& extra_pool,
              std::int64_t begin, std::int64_t end)
      : entries_(entries), main_(main_pool), extra_(extra_pool), at_(begin), end_(end) {}

  // Writes up to capacity rows; fewer only at the end. Returns how many.
  int fill(RowRef* rows, int capacity) {
    int count = 0;
    const std::int64_t main_end = std::min<std::int64_t>(end_, entries_.main_length);
    for (; at_ < main_end && count < capacity; ++at_) {
      const std::int32_t slot = entries_.main_slots[at_];
      if (main_.is_valid(slot)) rows[count++] = main_.row(slot);
    }
    for (; at_ >= main_end && at_ < end_ && count < capacity; ++at_) {
      const std::int32_t slot = entries_.extra_slots[at_ - entries_.main_length];
      if (extra_.is_valid(slot)) rows[count++] = extra_.row(slot);
    }
    return count;
  }

 private:
  const RowEntries& entries_;
  const Pool& main_;
  const Pool& extra_;
  std::int64_t at_;
  std::int64_t end_;
};

}  // namespace splitwave::cpu
