// What a logits kernel is given. Owns the device-side form of LogitsCall; made by launch.cpp's
// functions from a checked call.
#pragma once

#include <cstdint>

#include "splitwave/ops.h"

namespace splitwave::cuda {

struct LogitsParams {
  int rows = 0;
  int heads = 0;
  std::int64_t length_max = 0;
  const std::uint8_t* q = nullptr;  // [rows, heads, value bytes]
  std::int64_t q_row_stride_bytes = 0;
  const std::uint8_t* q_scales = nullptr;  // [rows, heads, 4]
  std::int64_t q_scales_row_stride = 0;
  const float* weights = nullptr;  // [rows, heads]
  std::int64_t weights_row_stride = 0;
  const std::uint8_t* keys = nullptr;
  std::int64_t pages = 0;
  int page_size = 1;
  std::int64_t page_stride_bytes = 0;
  const std::int32_t* page_table = nullptr;  // [rows, ceil(length_max / page_size)]
  std::int64_t page_table_stride = 0;
  const std::int32_t* lengths = nullptr;  // [rows]
  float* logits = nullptr;                // [rows, length_max]
  std::int64_t logits_row_stride = 0;
};

}  // namespace splitwave::cuda
