// One block of memory that holds everything a call touches, and the calls' pointers as a list. Owns
// OpsArena and for_each_pointer: a call built over a host arena is moved to a copy of it, or to a
// device, by shifting its pointers, and whatever a call was not to write can be compared byte for
// byte. Used by the contract cases, the tests and the GPU programs; not on any run path.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "splitwave/ops.h"

namespace splitwave {

class OpsArena {
 public:
  static constexpr std::size_t k_alignment = 256;
  static constexpr std::size_t k_red_zone_bytes = 256;  // after each buffer: must survive
  static constexpr std::uint8_t k_poison = 0xFF;        // NaN in every float format, -1 in integers

  explicit OpsArena(std::size_t capacity_bytes)
      : storage_(capacity_bytes + k_alignment, k_poison), capacity_(capacity_bytes) {}
  OpsArena(const OpsArena& other)
      : storage_(other.storage_.size()), used_(other.used_), capacity_(other.capacity_) {
    std::memcpy(data(), other.data(), used_);
  }
  OpsArena& operator=(const OpsArena&) = delete;

  // count elements, poisoned.
  template <class T>
  T* take(std::size_t count) {
    T* out = reinterpret_cast<T*>(data() + used_);
    used_ += (count * sizeof(T) + k_red_zone_bytes + k_alignment - 1) / k_alignment * k_alignment;
    SPLITWAVE_CHECK(used_ <= capacity_, "the arena is too small for its case");
    return out;
  }
  template <class T>
  T* put(const std::vector<T>& values) {
    T* out = take<T>(values.size());
    std::copy(values.begin(), values.end(), out);
    return out;
  }
  [[nodiscard]] std::uint8_t* data() { return align(storage_.data()); }
  [[nodiscard]] const std::uint8_t* data() const {
    return align(const_cast<std::uint8_t*>(storage_.data()));
  }
  [[nodiscard]] std::size_t used_bytes() const { return used_; }

 private:
  static std::uint8_t* align(std::uint8_t* p) {
    const auto address = reinterpret_cast<std::uintptr_t>(p);
    return p + (k_alignment - address % k_alignment) % k_alignment;
  }
  std::vector<std::uint8_t> storage_;
  std::size_t used_ = 0;
  std::size_t capacity_ = 0;
};

// Calls visit(pointer&) for every pointer of a call.
template <class F>
void for_each_pointer(LogitsCall& c, F&& visit) {
  visit(c.q), visit(c.q_scales), visit(c.weights), visit(c.keys.base), visit(c.key_pages.pages);
  visit(c.lengths), visit(c.logits);
}
template <class F>
void for_each_pointer(TopKCall& c, F&& visit) {
  visit(c.logits), visit(c.lengths), visit(c.indices), visit(c.counts);
}
template <class F>
void for_each_pointer(SelectCall& c, F&& visit) {
  for_each_pointer(c.logits, visit);
  visit(c.kv_pages.pages), visit(c.slots), visit(c.counts), visit(c.indices);
}
template <class F>
void for_each_pointer(KvWriteCall& c, F&& visit) {
  visit(c.nope), visit(c.rope), visit(c.table.cos_sin), visit(c.positions), visit(c.slots);
  visit(c.cache.base);
}
template <class F>
void for_each_pointer(IndexerKeyWriteCall& c, F&& visit) {
  visit(c.keys), visit(c.table.cos_sin), visit(c.positions), visit(c.slots), visit(c.cache.base);
}
template <class F>
void for_each_pointer(IndexerQueryCall& c, F&& visit) {
  visit(c.q), visit(c.weights), visit(c.table.cos_sin), visit(c.positions), visit(c.q_out);
  visit(c.q_scales_out), visit(c.weights_out);
}
template <class F>
void for_each_pointer(CompressCall& c, F&& visit) {
  visit(c.offsets), visit(c.start), visit(c.state_slot), visit(c.kv), visit(c.gate), visit(c.ape);
  visit(c.norm), visit(c.table.cos_sin), visit(c.state), visit(c.slots), visit(c.cache.base);
  visit(c.rows_out);
}
template <class F>
void for_each_pointer(StateCopyCall& c, F&& visit) {
  visit(c.slots), visit(c.state), visit(c.buffer);
}

// The same call over the same bytes at another base.
template <class Call>
[[nodiscard]] Call moved(Call call, const std::uint8_t* from, std::uint8_t* to) {
  for_each_pointer(call, [&](auto& pointer) {
    if (pointer == nullptr) return;
    const auto offset =
        reinterpret_cast<std::uintptr_t>(pointer) - reinterpret_cast<std::uintptr_t>(from);
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(
        reinterpret_cast<std::uintptr_t>(to) + offset);
  });
  return call;
}

}  // namespace splitwave
