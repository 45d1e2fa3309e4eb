// The damage is done to host output, after the kernel has finished.
#include "experiment/planted.h"

#include "formats/bf16.h"
#include "formats/index_list.h"

namespace splitwave::experiment {

void PlantedFault::restart() {
  calls_ = 0;
  batch_calls_ = 0;
  has_target_ = false;
}

Status PlantedFault::execute(const DecodeCall& call, const RunCall& run) {
  if (Status status = run(call); !status.ok()) return status;
  if (kind_ == Planted::flip_bit) flip_bit(call);
  if (kind_ == Planted::drop_key) drop_key(call);
  return {};
}

void PlantedFault::flip_bit(const DecodeCall& call) {
  ++calls_;
  if (call.rows > 1) ++batch_calls_;
  const bool strikes = call.rows > 1 ? batch_calls_ == 2 : batch_calls_ == 0 && calls_ == 2;
  if (!strikes) return;
  const std::int64_t row = call.rows / 2;
  const std::int64_t head = spec_.heads / 2;
  call.out[row * call.out_row_stride + head * call.out_head_stride + k_value_dims / 3] ^= 1;
}

void PlantedFault::drop_key(const DecodeCall& call) {
  const auto length = [&](int row) {
    return row_length(call.main_cache, call.main_list, spec_.main_width, row);
  };
  if (!has_target_) {
    int row = call.rows / 2;
    while (row < call.rows && length(row) == 0) ++row;
    if (row == call.rows) return;
    has_target_ = true;
    target_slot_ = list_entry(call.main_list, row, 0);
  }
  for (int row = 0; row < call.rows; ++row) {
    const int n = length(row);
    if (n == 0 || list_entry(call.main_list, row, 0) != target_slot_) continue;
    const SelectedRows one(spec_, call, {row});
    DecodeCall damaged = one.call();
    const_cast<std::int32_t*>(damaged.main_list.slots)[n / 2] = -1;  // SelectedRows' own copy
    const ReferenceResult wrong = reference_decode(spec_, damaged);
    const std::int64_t head = spec_.heads / 2;
    for (std::int64_t dim = 0; dim < k_value_dims; ++dim) {
      call.out[row * call.out_row_stride + head * call.out_head_stride + dim] =
          double_to_bf16(wrong.out[static_cast<std::size_t>(head * k_value_dims + dim)]);
    }
    if (call.lse != nullptr) {
      call.lse[row * call.lse_row_stride + head] =
          static_cast<float>(wrong.lse[static_cast<std::size_t>(head)]);
    }
  }
}

}  // namespace splitwave::experiment
