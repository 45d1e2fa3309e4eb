// One sparse decode problem: what is fixed at creation (ProblemSpec) and what a call brings
// (DecodeCall). Owns the shapes, strides and rules; design: the numerics contract of
// docs/contract.md. Memory is the caller's; every pointer must stay valid until the call (on CUDA:
// the stream's work) has finished. On the CUDA backend all pointers are device pointers.
#pragma once

#include <cstdint>
#include <limits>

#include "splitwave/layout.h"

namespace splitwave {

// What a row's bits may depend on besides its own inputs: a class fixes the chunk length for a
// format and its declared widths. Variants of one class are bitwise equal.
enum class NumericsClass : std::uint8_t {
  throughput,  // default: as few chunks as pay off at high batch
  latency,     // short chunks: deployments that stay at or under about 8 rows
};

// How a row's list is cut. exact: by the class's chunk length, so a row's bits never depend on its
// batch. free: splits = ceil(target_ctas / (rows * head blocks)), the bits depend on the batch.
enum class SplitMode : std::uint8_t { exact, free };

// The type of the matrix operands. f16 needs a declared range: |q| and |dequantised K| both at most
// value_range_max (<= 65504), every nonzero value of magnitude >= 2^-14 or negligible to the
// caller.
enum class OperandType : std::uint8_t { bf16, f16 };

// Fixed at creation. Any width >= 0; heads 1..128; rows_max >= 0 bounds the rows of a call.
struct ProblemSpec {
  KvFormat format = KvFormat::v4;
  int heads = 64;
  int main_width = 128;  // entries of one row of the main index list
  int extra_width = 0;   // entries of one row of the extra index list; 0: no extra cache
  int rows_max = 256;
  NumericsClass numerics = NumericsClass::throughput;
  OperandType operands = OperandType::bf16;
  float value_range_max = std::numeric_limits<float>::infinity();  // read for f16 only
};

// A paged cache. base 16-byte aligned; page_stride_bytes >= page_bytes(format, page_size) and a
// multiple of 8. pages * page_size slots; a slot is page * page_size + offset.
struct CacheView {
  const std::uint8_t* base = nullptr;
  std::int64_t pages = 0;
  int page_size = 1;
  std::int64_t page_stride_bytes = 0;
};

// int32 slots [rows, width], row stride in elements (any, >= width). A negative slot, or one beyond
// the pool, is invalid: skipped, never read. lengths: int32 [rows] or null; clamped to 0..width.
// Null: a row's length is its last valid entry + 1.
struct IndexList {
  const std::int32_t* slots = nullptr;
  std::int64_t row_stride = 0;
  const std::int32_t* lengths = nullptr;
};

struct DecodeCall {
  int rows = 0;
  const std::uint16_t* q = nullptr;   // bf16 [rows, heads, d_qk], last dimension contiguous
  std::int64_t q_row_stride = 0;      // elements, a multiple of 8
  std::int64_t q_head_stride = 0;     // elements, a multiple of 8
  CacheView main_cache, extra_cache;  // the same format; each its own page size and stride
  IndexList main_list, extra_list;
  float softmax_scale = 0.0F;        // scores = softmax_scale * q.k
  const float* sink = nullptr;       // fp32 [heads] or null: joins the denominator only
  std::uint16_t* out = nullptr;      // bf16 [rows, heads, 512]; a row with no valid key gives 0
  std::int64_t out_row_stride = 0;   // elements, a multiple of 8
  std::int64_t out_head_stride = 0;  // elements, a multiple of 8
  float* lse = nullptr;              // fp32 [rows, heads] or null: natural log, without the sink;
  std::int64_t lse_row_stride = 0;   //   +inf for a row with no valid key
  void* stream = nullptr;            // cudaStream_t; ignored by the CPU backend
};

}  // namespace splitwave
