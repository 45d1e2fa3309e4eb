// The rules of docs/contract.md on shapes, read off DLPack arrays. What the C interface checks
// itself (alignment, stride units) is left to it.
#include "arguments.h"

#include <nanobind/stl/string.h>

namespace splitwave_python {
namespace {

constexpr int k_dlpack_cpu = 1, k_dlpack_cuda = 2, k_dlpack_cuda_host = 3, k_dlpack_managed = 13;

std::string text_of(nb::dlpack::dtype dtype) {
  static const char* const names[] = {"int",    "uint",    "float", "opaque",
                                      "bfloat", "complex", "bool"};
  const std::string name = dtype.code < 7    ? names[dtype.code]
                           : dtype.code < 15 ? "float8 variant "
                                             : "type code " + std::to_string(dtype.code) + " of ";
  return name + std::to_string(dtype.bits);
}

bool is_type(nb::dlpack::dtype given, Array::Type type) {
  const auto is = [&](nb::dlpack::dtype_code code, int bits) {
    return given.code == static_cast<uint8_t>(code) && given.bits == bits && given.lanes == 1;
  };
  switch (type) {
    case Array::Type::bf16:
      return is(nb::dlpack::dtype_code::Bfloat, 16) || is(nb::dlpack::dtype_code::UInt, 16);
    case Array::Type::float32:
      return is(nb::dlpack::dtype_code::Float, 32);
    case Array::Type::int32:
      return is(nb::dlpack::dtype_code::Int, 32);
    case Array::Type::byte:
      return given.bits == 8 && given.lanes == 1;
  }
  return false;
}

const char* name_of(Array::Type type) {
  switch (type) {
    case Array::Type::bf16:
      return "bfloat16, or uint16 that holds bf16 bits,";
    case Array::Type::float32:
      return "float32";
    case Array::Type::int32:
      return "int32";
    case Array::Type::byte:
      return "a dtype of one byte (uint8, int8, float8_e4m3)";
  }
  return "";
}

std::string device_name(bool is_cuda, int id) {
  return is_cuda ? "cuda:" + std::to_string(id) : "the CPU";
}

}  // namespace

Array::Array(const char* field, nb::handle object, bool is_writable) : field_(field) {
  if (object.is_none()) return;
  has_value_ = true;
  if (is_writable) {
    nb::ndarray<> writable;
    if (!nb::try_cast(object, writable, false)) {
      refuse(nb::type_name(object.type()).c_str(),
             "a writable numpy array, torch tensor or other DLPack array is required");
    }
    array_ = nb::ndarray<nb::ro>(writable);
    return;
  }
  if (!nb::try_cast(object, array_, false)) {
    refuse(nb::type_name(object.type()).c_str(),
           "a numpy array, torch tensor or other DLPack array is required");
  }
}

void Array::refuse(const std::string& given, const std::string& works) const {
  throw nb::value_error((std::string(field_) + ": " + given + ": " + works).c_str());
}

void Array::require(Type type, int dims, const Expected& expected) const {
  if (!has_value_) refuse("None", "an array is required");
  if (!is_type(array_.dtype(), type)) {
    refuse("dtype " + text_of(array_.dtype()), std::string(name_of(type)) + " is required");
  }
  if (ndim() != dims) {
    refuse(std::to_string(ndim()) + " dimensions", std::to_string(dims) + " are required");
  }
  const int kind = array_.device_type();
  const bool is_cuda = kind == k_dlpack_cuda || kind == k_dlpack_managed;
  if (!is_cuda && kind != k_dlpack_cpu && kind != k_dlpack_cuda_host) {
    refuse("DLPack device type " + std::to_string(kind), "CPU or CUDA memory is required");
  }
  if (is_cuda != expected.is_cuda || (is_cuda && array_.device_id() != expected.device)) {
    refuse("on " + device_name(is_cuda, array_.device_id()),
           "the decoder runs on " + device_name(expected.is_cuda, expected.device) +
               ": move the array, or create a decoder for its device");
  }
  if (dims > 0 && shape(dims - 1) > 1 && stride(dims - 1) != 1) {
    refuse("stride " + std::to_string(stride(dims - 1)) + " of the last dimension",
           "1 is required: pass a contiguous copy");
  }
}

void Array::require_shape(int dim, int64_t size, const char* meaning) const {
  if (shape(dim) == size) return;
  refuse("shape[" + std::to_string(dim) + "] = " + std::to_string(shape(dim)),
         std::to_string(size) + " is required (" + meaning + ")");
}

RowsHeads rows_heads_of(const Array& array, int64_t rows, int64_t dims, const Expected& expected) {
  array.require(Array::Type::bf16, 3, expected);
  array.require_shape(0, rows, "rows of the call");
  array.require_shape(1, expected.heads, "heads of the decoder");
  array.require_shape(2, dims, "dimensions of the format");
  return {rows > 1 ? array.stride(0) : expected.heads * dims,
          expected.heads > 1 ? array.stride(1) : dims};
}

splitwave_cache cache_of(const Array& array, const Expected& expected) {
  const int dims = array.has_value() && array.ndim() == 3 ? 3 : 4;
  array.require(Array::Type::byte, dims, expected);
  if (dims == 4) array.require_shape(2, 1, "KV heads");
  const int64_t row_bytes = expected.row_bytes();
  array.require_shape(dims - 1, row_bytes, "bytes of a token in the format");
  const int64_t page_size = array.shape(1);
  if (page_size < 1) array.refuse("shape[1] = 0", "1 token a page or more is required");
  if (page_size > 1 && array.stride(1) != row_bytes) {
    array.refuse("stride " + std::to_string(array.stride(1)) + " of dimension 1",
                 std::to_string(row_bytes) + " is required: the tokens of a page lie side by side");
  }
  splitwave_cache cache = {};
  cache.base = array.data<const void>();
  cache.pages = array.shape(0);
  cache.page_size = static_cast<int32_t>(page_size);
  cache.page_stride_bytes = cache.pages > 1 ? array.stride(0) : page_size * row_bytes;
  return cache;
}

splitwave_index_list list_of(const Array& slots, const Array& lengths, int64_t rows, int64_t width,
                             const Expected& expected) {
  slots.require(Array::Type::int32, 2, expected);
  slots.require_shape(0, rows, "rows of the call");
  slots.require_shape(1, width, "the width given at creation; pad with -1");
  splitwave_index_list list = {};
  list.slots = slots.data<const int32_t>();
  list.row_stride = rows > 1 ? slots.stride(0) : width;
  if (lengths.has_value()) {
    lengths.require(Array::Type::int32, 1, expected);
    lengths.require_shape(0, rows, "rows of the call");
    list.lengths = lengths.data<const int32_t>();
  }
  return list;
}

}  // namespace splitwave_python
