// Arrays as the C interface takes them. Owns the reading of DLPack arrays: dtype, shape, strides
// and device, each refused as a ValueError with the field, what was given and what would work; must
// not copy. Called by core.cpp.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>

#include "splitwave/splitwave.h"

namespace splitwave_python {

namespace nb = nanobind;

// What the arrays of one call must agree with.
struct Expected {
  int format = SPLITWAVE_FORMAT_V4;
  int heads = 0;
  bool is_cuda = false;
  int device = 0;  // CUDA ordinal

  [[nodiscard]] int qk_dims() const { return format == SPLITWAVE_FORMAT_V4 ? 512 : 576; }
  [[nodiscard]] int row_bytes() const { return format == SPLITWAVE_FORMAT_V4 ? 584 : 656; }
};

// An array or none, with the name that messages use.
class Array {
 public:
  // object: anything with __dlpack__, a buffer or a DLPack capsule; None gives an empty Array.
  // A writable one refuses a read-only buffer.
  Array(const char* field, nb::handle object, bool is_writable = false);

  [[nodiscard]] bool has_value() const { return has_value_; }
  [[nodiscard]] int64_t shape(int dim) const { return static_cast<int64_t>(array_.shape(dim)); }
  [[nodiscard]] int64_t stride(int dim) const { return array_.stride(dim); }
  [[nodiscard]] int ndim() const { return static_cast<int>(array_.ndim()); }
  template <class T>
  [[nodiscard]] T* data() const {
    return static_cast<T*>(const_cast<void*>(array_.data()));
  }
  [[nodiscard]] int64_t bytes() const { return static_cast<int64_t>(array_.nbytes()); }

  enum class Type { bf16, float32, int32, byte };
  // Refuses another dtype, number of dimensions, device or a last dimension with gaps.
  void require(Type type, int ndim, const Expected& expected) const;
  void require_shape(int dim, int64_t size, const char* meaning) const;
  [[noreturn]] void refuse(const std::string& given, const std::string& works) const;

 private:
  const char* field_;
  bool has_value_ = false;
  nb::ndarray<nb::ro> array_;
};

// [rows, heads, dims] with its two strides; a stride that no element needs becomes the dense one.
struct RowsHeads {
  int64_t row_stride = 0, head_stride = 0;
};
RowsHeads rows_heads_of(const Array& array, int64_t rows, int64_t dims, const Expected& expected);

// [pages, page_size, 1, row_bytes] or [pages, page_size, row_bytes]
splitwave_cache cache_of(const Array& array, const Expected& expected);

// slots int32 [rows, width], lengths int32 [rows] or none
splitwave_index_list list_of(const Array& slots, const Array& lengths, int64_t rows, int64_t width,
                             const Expected& expected);

}  // namespace splitwave_python
