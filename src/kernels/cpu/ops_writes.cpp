// Row and sequence loops of the cache writes and the compressor on the CPU.
#include "kernels/cpu/ops_writes.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>

#include "formats/e8m0.h"
#include "formats/fp8.h"
#include "formats/ops_cache.h"
#include "formats/ops_compressor.h"
#include "formats/ops_math.h"

namespace splitwave::cpu {
namespace {

template <class Body>
void for_each(WorkerPool& pool, std::int64_t count, Body&& body) {
  std::atomic<std::int64_t> next{0};
  const int workers = static_cast<int>(std::min<std::int64_t>(pool.threads(), count));
  if (workers == 0) return;
  pool.run(workers, [&](int) {
    for (std::int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) body(i);
  });
}

// One e4m3 block: its scale is returned, NaN makes the whole block NaN.
float encode_block(const OpsKernels& kernels, const std::uint16_t* dims, int count,
                   bool power_of_two, std::uint8_t* codes) {
  const float scale =
      block_scale(kernels.amax_bits(dims, count), k_amax_floor_fp8, k_e4m3_max, power_of_two);
  if (std::isnan(scale)) {
    std::fill_n(codes, count, k_e4m3_nan_code);
  } else {
    kernels.encode_e4m3(dims, count, scale, codes);
  }
  return scale;
}

void store_v4_row(const OpsKernels& kernels, const std::uint16_t* nope, const std::uint16_t* rope,
                  std::uint8_t* data, std::uint8_t* scales) {
  for (int block = 0; block < k_v4_scales; ++block) {
    const int at = block * k_v4_scale_group;
    const float scale = encode_block(kernels, nope + at, k_v4_scale_group, true, data + at);
    scales[block] = std::isnan(scale) ? k_e8m0_nan_code : encode_e8m0_ceil(scale);
  }
  scales[k_v4_scales] = 0;
  std::memcpy(data + k_v4_rope_offset_bytes, rope, 2 * k_rope_dims);
}

void store_v32_row(const OpsKernels& kernels, const KvWriteCall& call, const std::uint16_t* nope,
                   const std::uint16_t* rope, std::uint8_t* row) {
  for (int at = 0; at < k_v32_nope_dims; at += k_v32_scale_group) {
    const float scale = encode_block(kernels, nope + at, k_v32_scale_group,
                                     call.rounding == ScaleRounding::power_of_two, row + at);
    std::memcpy(row + k_v32_scale_offset_bytes + at / k_v32_scale_group * 4, &scale, sizeof scale);
  }
  std::memcpy(row + k_v32_rope_offset_bytes, rope, 2 * k_rope_dims);
}

void store_indexer_row(const OpsKernels& kernels, IndexerFormat format, ScaleRounding rounding,
                       const std::uint16_t* dims, std::uint8_t* values, std::uint8_t* scales) {
  if (format != IndexerFormat::fp8) {
    quantise_indexer_row(format, rounding, dims, values, scales);
    return;
  }
  const float scale =
      encode_block(kernels, dims, k_indexer_dims, rounding == ScaleRounding::power_of_two, values);
  std::memcpy(scales, &scale, sizeof scale);
}

// The indexer's row transform before quantisation: RoPE on the last 64 dims, then Hadamard.
void transform_row(const std::uint16_t* in, const RopeTable& table, const std::int32_t* positions,
                   std::int64_t row, bool hadamard, std::uint16_t* dims) {
  std::copy_n(in, k_indexer_dims, dims);
  if (table.cos_sin != nullptr) {
    rotate_rope(dims + k_indexer_dims - k_rope_dims,
                table.cos_sin + std::int64_t{positions[row]} * k_rope_dims);
  }
  if (hadamard) rotate_hadamard(dims);
}

void store_entry_simd(const OpsKernels& kernels, const CompressorSpec& spec,
                      const CompressCall& call, std::int64_t token, const std::uint16_t* entry) {
  if (spec.target != CompressorTarget::v4_cache) {
    store_entry(spec, call, token, entry);
    return;
  }
  const SlotBytes at =
      planar_slot_bytes(call.slots[token], call.cache.page_size, call.cache.page_stride_bytes,
                        k_v4_data_bytes, k_v4_scale_bytes);
  store_v4_row(kernels, entry, entry + k_v4_nope_dims, call.cache.base + at.values,
               call.cache.base + at.scales);
}

// compressor_step with the vector kernels.
bool step(const OpsKernels& kernels, const CompressorSpec& spec, const float* kv, const float* gate,
          const float* ape, std::int64_t position, float* state, float* pooled) {
  if (!kernels.is_fused) return compressor_step(spec, kv, gate, ape, position, state, pooled);
  const std::int64_t phase = position % spec.ratio;
  const bool is_last = phase == spec.ratio - 1;
  if (spec.ratio == k_compressor_online_ratio) {
    kernels.online({.dims = spec.dims,
                    .is_first = phase == 0,
                    .is_last = is_last,
                    .kv = kv,
                    .gate = gate,
                    .ape = ape + phase * spec.dims,
                    .state = state,
                    .pooled = pooled});
    return is_last;
  }
  const int channels = 2 * spec.dims;
  const std::ptrdiff_t token_floats = std::ptrdiff_t{2} * channels;
  float* mine = state + position % k_compressor_ring_tokens * token_floats;
  std::copy_n(kv, channels, mine);
  for (int c = 0; c < channels; ++c) mine[channels + c] = gate[c] + ape[phase * channels + c];
  if (!is_last) return false;
  const std::int64_t oldest = position - (k_compressor_ring_tokens - 1);
  PoolTask task;
  task.dims = spec.dims;
  task.first = oldest < 0 ? spec.ratio : 0;
  for (int j = task.first; j < k_compressor_ring_tokens; ++j) {
    const float* token = state + (oldest + j) % k_compressor_ring_tokens * token_floats;
    task.values[j] = token + (j < spec.ratio ? 0 : spec.dims);
    task.scores[j] = task.values[j] + channels;
  }
  task.pooled = pooled;
  kernels.pool(task);
  return true;
}

}  // namespace

void write_kv(const OpsKernels& kernels, WorkerPool& pool, const KvWriteCall& call) {
  for_each(pool, call.rows, [&](std::int64_t row) {
    const std::int64_t slot = call.slots[row];
    if (!slot_is_live(call.cache, slot)) return;
    if (!row_is_live(call.table, call.positions, static_cast<int>(row))) return;
    std::array<std::uint16_t, k_rope_dims> rope{};
    std::copy_n(call.rope + row * call.rope_row_stride, k_rope_dims, rope.begin());
    if (call.table.cos_sin != nullptr) {
      rotate_rope(rope.data(),
                  call.table.cos_sin + std::int64_t{call.positions[row]} * k_rope_dims);
    }
    const std::uint16_t* nope = call.nope + row * call.nope_row_stride;
    const bool is_v4 = call.format == KvFormat::v4;
    const SlotBytes at =
        planar_slot_bytes(slot, call.cache.page_size, call.cache.page_stride_bytes,
                          is_v4 ? k_v4_data_bytes : k_v32_row_bytes, is_v4 ? k_v4_scale_bytes : 0);
    if (is_v4) {
      store_v4_row(kernels, nope, rope.data(), call.cache.base + at.values,
                   call.cache.base + at.scales);
    } else {
      store_v32_row(kernels, call, nope, rope.data(), call.cache.base + at.values);
    }
  });
}

void write_indexer_keys(const OpsKernels& kernels, WorkerPool& pool,
                        const IndexerKeyWriteCall& call) {
  for_each(pool, call.rows, [&](std::int64_t row) {
    const std::int64_t slot = call.slots[row];
    if (!slot_is_live(call.cache, slot)) return;
    if (!row_is_live(call.table, call.positions, static_cast<int>(row))) return;
    std::array<std::uint16_t, k_indexer_dims> dims{};
    transform_row(call.keys + row * call.keys_row_stride, call.table, call.positions, row,
                  call.hadamard, dims.data());
    const SlotBytes at =
        planar_slot_bytes(slot, call.cache.page_size, call.cache.page_stride_bytes,
                          indexer_value_bytes(call.format), indexer_scale_bytes(call.format));
    store_indexer_row(kernels, call.format, call.rounding, dims.data(), call.cache.base + at.values,
                      call.cache.base + at.scales);
  });
}

void prepare_indexer_queries(const OpsKernels& kernels, WorkerPool& pool,
                             const IndexerQueryCall& call) {
  const int value_bytes = indexer_value_bytes(call.format);
  for_each(pool, call.rows, [&](std::int64_t row) {
    if (!row_is_live(call.table, call.positions, static_cast<int>(row))) return;
    for (int head = 0; head < call.heads; ++head) {
      const std::int64_t item = row * call.heads + head;
      std::array<std::uint16_t, k_indexer_dims> dims{};
      transform_row(call.q + row * call.q_row_stride + std::int64_t{head} * k_indexer_dims,
                    call.table, call.positions, row, call.hadamard, dims.data());
      std::array<std::uint8_t, 4> scales{};
      store_indexer_row(kernels, call.format, ScaleRounding::power_of_two, dims.data(),
                        call.q_out + item * value_bytes, scales.data());
      float scale = 1.0F;  // x * 1 keeps every bit, a NaN's apart: the other formats copy
      if (call.format == IndexerFormat::fp8) std::memcpy(&scale, scales.data(), sizeof scale);
      if (call.format == IndexerFormat::fp4) {
        std::copy(scales.begin(), scales.end(), call.q_scales_out + item * k_indexer_fp4_scales);
      }
      const float weight = call.weights[item];
      call.weights_out[item] = call.format == IndexerFormat::fp8 ? one_nan(weight * scale) : weight;
    }
  });
}

void compress(const OpsKernels& kernels, WorkerPool& pool, const CompressorSpec& spec,
              const CompressCall& call) {
  const std::int64_t state_floats = compressor_state_floats(spec.ratio, spec.dims);
  for_each(pool, call.sequences, [&](std::int64_t s) {
    const std::int32_t slot = call.state_slot[s];
    if (call.start[s] < 0 || slot < 0 || slot >= call.state_slots) return;
    float* state = call.state + slot * state_floats;
    std::array<float, 512> pooled;
    std::array<std::uint16_t, 512> entry;
    for (std::int64_t t = call.offsets[s]; t < call.offsets[s + 1]; ++t) {
      const std::int64_t position = std::int64_t{call.start[s]} + (t - call.offsets[s]);
      const bool emits =
          step(kernels, spec, call.kv + t * call.token_stride, call.gate + t * call.token_stride,
               call.ape, position, state, pooled.data());
      if (!emits || !entry_is_live(spec, call, t, position)) continue;
      const float* cos_sin = call.table.cos_sin;
      if (cos_sin != nullptr) cos_sin += (position - (spec.ratio - 1)) * k_rope_dims;
      finish_entry(spec, pooled.data(), call.norm, cos_sin, entry.data());
      store_entry_simd(kernels, spec, call, t, entry.data());
    }
  });
}

}  // namespace splitwave::cpu
