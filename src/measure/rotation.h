// Keeping the last call's data out of the cache. Owns Rotation: how many copies of a call's buffers
// make a working set that the L2 cannot hold, and which copy is next. Plain arithmetic: the caller
// owns the buffers. Called by the bench and by experiments whose plan says "L2 cold".
#pragma once

#include <cstdint>

namespace splitwave::measure {

// The set must exceed the cache by this much: a set of just the cache's size keeps hitting, since
// replacement is not strict LRU.
inline constexpr int k_rotation_cache_multiple = 2;
inline constexpr int k_rotation_copies_max = 1'024;

class Rotation {
 public:
  // bytes_per_copy: what one call reads. At least 2 copies, at most k_rotation_copies_max: a call
  // so small that this is not enough stays partly warm, and covers_cache() says so.
  Rotation(std::int64_t bytes_per_copy, std::int64_t cache_bytes)
      : copies_(2), bytes_per_copy_(bytes_per_copy < 1 ? 1 : bytes_per_copy) {
    target_bytes_ = cache_bytes * k_rotation_cache_multiple;
    const std::int64_t needed = (target_bytes_ + bytes_per_copy_ - 1) / bytes_per_copy_;
    if (needed > copies_) {
      copies_ = needed > k_rotation_copies_max ? k_rotation_copies_max : static_cast<int>(needed);
    }
  }

  [[nodiscard]] int copies() const { return copies_; }
  [[nodiscard]] bool covers_cache() const { return copies_ * bytes_per_copy_ >= target_bytes_; }

  // The copy for the next call: 0, 1, ..., copies() - 1, 0, ...
  int next() {
    const int current = next_;
    next_ = next_ + 1 == copies_ ? 0 : next_ + 1;
    return current;
  }

 private:
  int copies_;
  int next_ = 0;
  std::int64_t bytes_per_copy_;
  std::int64_t target_bytes_ = 0;
};

}  // namespace splitwave::measure
