// Writes a reference result where a backend would: the perfect backend of the tests.
#pragma once

#include "formats/bf16.h"
#include "formats/reference.h"

namespace splitwave {

inline void write_result(const ProblemSpec& spec, const DecodeCall& call,
                         const ReferenceResult& result) {
  for (std::int64_t row = 0; row < call.rows; ++row) {
    for (std::int64_t head = 0; head < spec.heads; ++head) {
      const auto cell = static_cast<std::size_t>(row * spec.heads + head);
      for (int c = 0; c < k_value_dims; ++c) {
        call.out[row * call.out_row_stride + head * call.out_head_stride + c] =
            double_to_bf16(result.out[cell * k_value_dims + static_cast<std::size_t>(c)]);
      }
      if (call.lse != nullptr) {
        call.lse[row * call.lse_row_stride + head] = static_cast<float>(result.lse[cell]);
      }
    }
  }
}

}  // namespace splitwave
