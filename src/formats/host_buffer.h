// A host buffer of exactly the bytes asked for. Owns HostBuffer, from which synthetic problems are
// built: exact ends and least alignment, so that what reads too far or assumes too much is caught.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <span>
#include <utility>

#include "base/check.h"

namespace splitwave {

// Exactly `bytes` bytes at an address that is 16-byte aligned and not more: a backend that assumes
// more, or reads past the end, is caught (the latter by ASan).
class HostBuffer {
 public:
  // Buffers above this are reserved by mmap and cost only the pages that are touched: a test of
  // 64-bit offsets must not need the memory that it spans.
  static constexpr std::int64_t k_sparse_bytes = std::int64_t{1} << 30;

  HostBuffer() = default;
  explicit HostBuffer(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    is_mapped_ = bytes > k_sparse_bytes;
    if (is_mapped_) {
      memory_ =
          static_cast<std::uint8_t*>(mmap(nullptr, bytes_ + k_offset, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
      SPLITWAVE_CHECK(memory_ != MAP_FAILED, "cannot reserve address space for a sparse pool");
    } else {
      memory_ = static_cast<std::uint8_t*>(::operator new(bytes_ + k_offset, k_alignment));
      ask_for_huge_pages();
    }
  }
  HostBuffer(HostBuffer&& other) noexcept { swap(other); }
  HostBuffer& operator=(HostBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~HostBuffer() {
    if (memory_ == nullptr) return;
    if (is_mapped_) {
      munmap(memory_, bytes_ + k_offset);
    } else {
      ::operator delete(memory_, k_alignment);
    }
  }
  [[nodiscard]] std::uint8_t* data() const {
    return memory_ == nullptr ? nullptr : memory_ + k_offset;
  }
  // Larger than k_sparse_bytes: untouched pages are zero and cost nothing.
  [[nodiscard]] bool is_sparse() const { return is_mapped_; }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(data());
  }
  [[nodiscard]] std::span<std::uint8_t> bytes() const { return {data(), bytes_}; }

 private:
  // A pool of scattered rows on 4 KB pages costs an address translation a row, which no prefetch
  // hides: a serving engine allocates its pools so, and so do the problems that stand for it. A
  // hint: where the system refuses it, only time is lost.
  void ask_for_huge_pages() {
    constexpr std::uintptr_t k_huge_page_bytes = std::uintptr_t{2} << 20;
    constexpr std::size_t k_pool_bytes_min = 4 * k_huge_page_bytes;
    if (bytes_ < k_pool_bytes_min) return;
    const auto start = reinterpret_cast<std::uintptr_t>(memory_);
    const std::uintptr_t skipped =
        (k_huge_page_bytes - start % k_huge_page_bytes) % k_huge_page_bytes;
    const std::size_t whole = (bytes_ - skipped) / k_huge_page_bytes * k_huge_page_bytes;
    (void)madvise(memory_ + skipped, whole, MADV_HUGEPAGE);
  }

  static constexpr std::size_t k_offset = 16;
  static constexpr std::align_val_t k_alignment{64};
  void swap(HostBuffer& other) {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    std::swap(is_mapped_, other.is_mapped_);
  }
  std::uint8_t* memory_ = nullptr;
  std::size_t bytes_ = 0;
  bool is_mapped_ = false;
};

}  // namespace splitwave
