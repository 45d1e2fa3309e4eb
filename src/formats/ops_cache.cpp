// Row loops of the cache writes.
#include "formats/ops_cache.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "formats/ops_math.h"

namespace splitwave {

bool row_is_live(const RopeTable& table, const std::int32_t* positions, int row) {
  if (table.cos_sin == nullptr) return true;
  return positions[row] >= 0 && positions[row] < table.positions;
}

bool slot_is_live(const WritableCacheView& cache, std::int64_t slot) {
  return slot >= 0 && slot < cache.pages * cache.page_size;
}

void reference_write_kv(const KvWriteCall& call) {
  for (int row = 0; row < call.rows; ++row) {
    const std::int64_t slot = call.slots[row];
    if (!slot_is_live(call.cache, slot) || !row_is_live(call.table, call.positions, row)) continue;
    const std::uint16_t* nope = call.nope + row * call.nope_row_stride;
    std::array<std::uint16_t, k_rope_dims> rope{};
    std::copy_n(call.rope + row * call.rope_row_stride, k_rope_dims, rope.begin());
    if (call.table.cos_sin != nullptr) {
      rotate_rope(rope.data(),
                  call.table.cos_sin + std::int64_t{call.positions[row]} * k_rope_dims);
    }
    if (call.format == KvFormat::v4) {
      const SlotBytes at =
          planar_slot_bytes(slot, call.cache.page_size, call.cache.page_stride_bytes,
                            k_v4_data_bytes, k_v4_scale_bytes);
      quantise_v4_row(nope, rope.data(), call.cache.base + at.values, call.cache.base + at.scales);
    } else {
      const SlotBytes at = planar_slot_bytes(slot, call.cache.page_size,
                                             call.cache.page_stride_bytes, k_v32_row_bytes, 0);
      quantise_v32_row(nope, rope.data(), call.rounding, call.cache.base + at.values);
    }
  }
}

void reference_write_indexer_keys(const IndexerKeyWriteCall& call) {
  for (int row = 0; row < call.rows; ++row) {
    const std::int64_t slot = call.slots[row];
    if (!slot_is_live(call.cache, slot) || !row_is_live(call.table, call.positions, row)) continue;
    std::array<std::uint16_t, k_indexer_dims> dims{};
    std::copy_n(call.keys + row * call.keys_row_stride, k_indexer_dims, dims.begin());
    if (call.table.cos_sin != nullptr) {
      rotate_rope(dims.data() + k_indexer_dims - k_rope_dims,
                  call.table.cos_sin + std::int64_t{call.positions[row]} * k_rope_dims);
    }
    if (call.hadamard) rotate_hadamard(dims.data());
    const SlotBytes at =
        planar_slot_bytes(slot, call.cache.page_size, call.cache.page_stride_bytes,
                          indexer_value_bytes(call.format), indexer_scale_bytes(call.format));
    quantise_indexer_row(call.format, call.rounding, dims.data(), call.cache.base + at.values,
                         call.cache.base + at.scales);
  }
}

void reference_prepare_indexer_queries(const IndexerQueryCall& call) {
  const int value_bytes = indexer_value_bytes(call.format);
  for (int row = 0; row < call.rows; ++row) {
    if (!row_is_live(call.table, call.positions, row)) continue;
    for (int head = 0; head < call.heads; ++head) {
      const std::int64_t item = std::int64_t{row} * call.heads + head;
      std::array<std::uint16_t, k_indexer_dims> dims{};
      std::copy_n(call.q + row * call.q_row_stride + std::int64_t{head} * k_indexer_dims,
                  k_indexer_dims, dims.begin());
      if (call.table.cos_sin != nullptr) {
        rotate_rope(dims.data() + k_indexer_dims - k_rope_dims,
                    call.table.cos_sin + std::int64_t{call.positions[row]} * k_rope_dims);
      }
      if (call.hadamard) rotate_hadamard(dims.data());
      std::array<std::uint8_t, 4> scales{};
      quantise_indexer_row(call.format, ScaleRounding::power_of_two, dims.data(),
                           call.q_out + item * value_bytes, scales.data());
      float weight = call.weights[item];
      if (call.format == IndexerFormat::fp8) {
        float scale = 0;
        std::memcpy(&scale, scales.data(), sizeof scale);
        weight = one_nan(weight * scale);
      } else if (call.format == IndexerFormat::fp4) {
        std::copy(scales.begin(), scales.end(), call.q_scales_out + item * k_indexer_fp4_scales);
      }
      call.weights_out[item] = weight;
    }
  }
}

}  // namespace splitwave
