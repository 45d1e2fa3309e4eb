// The compressor on the host: exact steps and the double formula.
#include "formats/ops_compressor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "formats/bf16.h"
#include "formats/ops_cache.h"
#include "formats/ops_math.h"
#include "formats/ops_rows.h"

namespace splitwave {
namespace {

bool step_overlap(const CompressorSpec& spec, const float* kv, const float* gate, const float* ape,
                  std::int64_t position, float* state, float* pooled) {
  const int channels = 2 * spec.dims;
  const std::int64_t phase = position % spec.ratio;
  float* mine = state + position % k_compressor_ring_tokens * 2 * channels;
  for (int c = 0; c < channels; ++c) {
    mine[c] = kv[c];
    mine[channels + c] = op_add(gate[c], ape[phase * channels + c]);
  }
  if (phase != spec.ratio - 1) return false;
  const std::int64_t oldest = position - (k_compressor_ring_tokens - 1);  // negative for entry 0
  const int first = oldest < 0 ? spec.ratio : 0;
  for (int c = 0; c < spec.dims; ++c) {
    std::array<float, k_compressor_ring_tokens> score{};
    std::array<float, k_compressor_ring_tokens> value{};
    for (int j = first; j < k_compressor_ring_tokens; ++j) {
      const float* token = state + (oldest + j) % k_compressor_ring_tokens * 2 * channels;
      const int channel = j < spec.ratio ? c : spec.dims + c;
      value[j] = token[channel];
      score[j] = token[channels + channel];
    }
    pooled[c] = pool_eight(score.data(), value.data(), first);
  }
  return true;
}

bool step_online(const CompressorSpec& spec, const float* kv, const float* gate, const float* ape,
                 std::int64_t position, float* state, float* pooled) {
  const std::int64_t phase = position % spec.ratio;
  float* m = state;
  float* l = state + spec.dims;
  float* a = state + std::ptrdiff_t{2} * spec.dims;
  for (int c = 0; c < spec.dims; ++c) {
    const float score = op_add(gate[c], ape[phase * spec.dims + c]);
    if (phase == 0) {
      m[c] = score;
      l[c] = 1.0F;
      a[c] = kv[c];
    } else {
      online_softmax_step(score, kv[c], m[c], l[c], a[c]);
    }
    if (phase == spec.ratio - 1) pooled[c] = op_div(a[c], l[c]);
  }
  return phase == spec.ratio - 1;
}

float square_sum(const float* x, int dims) {
  float total = 0;
  for (int group = 0; group < dims; group += 128) {
    std::array<float, 32> lane{};
    for (int t = 0; t < 32; ++t) {
      const float* v = x + group + 4 * t;
      lane[t] = square_sum4(v[0], v[1], v[2], v[3]);
    }
    for (int span = 16; span > 0; span /= 2) {
      for (int t = 0; t < span; ++t) lane[t] = op_add(lane[t], lane[t + span]);
    }
    total = group == 0 ? lane[0] : op_add(total, lane[0]);
  }
  return total;
}

IndexerFormat indexer_format(CompressorTarget target) {
  return target == CompressorTarget::indexer_fp8   ? IndexerFormat::fp8
         : target == CompressorTarget::indexer_fp4 ? IndexerFormat::fp4
                                                   : IndexerFormat::bf16;
}

bool sequence_is_live(const CompressCall& call, int sequence) {
  const std::int32_t slot = call.state_slot[sequence];
  return call.start[sequence] >= 0 && slot >= 0 && slot < call.state_slots;
}

}  // namespace

bool compressor_step(const CompressorSpec& spec, const float* kv, const float* gate,
                     const float* ape, std::int64_t position, float* state, float* pooled) {
  return spec.ratio == k_compressor_overlap_ratio
             ? step_overlap(spec, kv, gate, ape, position, state, pooled)
             : step_online(spec, kv, gate, ape, position, state, pooled);
}

void finish_entry(const CompressorSpec& spec, const float* pooled, const std::uint16_t* norm,
                  const float* cos_sin, std::uint16_t* entry) {
  std::array<float, 512> x{};
  for (int c = 0; c < spec.dims; ++c) x[c] = bf16_to_float(bf16_code(pooled[c]));
  const float factor =
      rms_factor(square_sum(x.data(), spec.dims), static_cast<float>(spec.dims), spec.norm_eps);
  for (int c = 0; c < spec.dims; ++c) {
    entry[c] = bf16_code(op_mul(bf16_to_float(norm[c]), op_mul(x[c], factor)));
  }
  if (cos_sin != nullptr) rotate_rope(entry + spec.dims - k_rope_dims, cos_sin);
  if (spec.hadamard) rotate_hadamard(entry);
}

bool entry_is_live(const CompressorSpec& spec, const CompressCall& call, std::int64_t token,
                   std::int64_t position) {
  const std::int64_t rotation = position - (spec.ratio - 1);
  if (call.table.cos_sin != nullptr && rotation >= call.table.positions) return false;
  if (spec.target == CompressorTarget::rows) return true;
  return slot_is_live(call.cache, call.slots[token]);
}

void store_entry(const CompressorSpec& spec, const CompressCall& call, std::int64_t token,
                 const std::uint16_t* entry) {
  if (spec.target == CompressorTarget::rows) {
    std::copy_n(entry, spec.dims, call.rows_out + token * call.rows_out_stride);
    return;
  }
  const bool is_main = spec.target == CompressorTarget::v4_cache;
  const IndexerFormat format = indexer_format(spec.target);
  const SlotBytes at =
      planar_slot_bytes(call.slots[token], call.cache.page_size, call.cache.page_stride_bytes,
                        is_main ? k_v4_data_bytes : indexer_value_bytes(format),
                        is_main ? k_v4_scale_bytes : indexer_scale_bytes(format));
  std::uint8_t* values = call.cache.base + at.values;
  std::uint8_t* scales = call.cache.base + at.scales;
  if (is_main) {
    quantise_v4_row(entry, entry + k_v4_nope_dims, values, scales);
  } else {
    quantise_indexer_row(format, ScaleRounding::power_of_two, entry, values, scales);
  }
}

void reference_compress(const CompressorSpec& spec, const CompressCall& call) {
  const std::int64_t state_floats = compressor_state_floats(spec.ratio, spec.dims);
  std::array<float, 512> pooled{};
  std::array<std::uint16_t, 512> entry{};
  for (int s = 0; s < call.sequences; ++s) {
    if (!sequence_is_live(call, s)) continue;
    float* state = call.state + call.state_slot[s] * state_floats;
    for (std::int64_t t = call.offsets[s]; t < call.offsets[s + 1]; ++t) {
      const std::int64_t position = std::int64_t{call.start[s]} + (t - call.offsets[s]);
      const bool emits =
          compressor_step(spec, call.kv + t * call.token_stride, call.gate + t * call.token_stride,
                          call.ape, position, state, pooled.data());
      if (!emits || !entry_is_live(spec, call, t, position)) continue;
      const float* cos_sin = call.table.cos_sin;
      if (cos_sin != nullptr) cos_sin += (position - (spec.ratio - 1)) * k_rope_dims;
      finish_entry(spec, pooled.data(), call.norm, cos_sin, entry.data());
      store_entry(spec, call, t, entry.data());
    }
  }
}

void reference_copy_state(const CompressorSpec& spec, const StateCopyCall& call) {
  const std::int64_t floats = compressor_state_floats(spec.ratio, spec.dims);
  for (int i = 0; i < call.count; ++i) {
    if (call.slots[i] < 0 || call.slots[i] >= call.state_slots) continue;
    float* pool = call.state + call.slots[i] * floats;
    float* packed = call.buffer + i * floats;
    if (call.direction == StateCopyCall::Direction::save) {
      std::copy_n(pool, floats, packed);
    } else {
      std::copy_n(packed, floats, pool);
    }
  }
}

std::vector<double> compress_in_double(const CompressorSpec& spec, const float* kv,
                                       const float* gate, std::int64_t tokens,
                                       std::int64_t token_stride, const float* ape,
                                       const std::uint16_t* norm, const RopeTable& table) {
  const bool overlaps = spec.ratio == k_compressor_overlap_ratio;
  const int channels = compressor_channels(spec);
  const std::int64_t entries = tokens / spec.ratio;
  std::vector<double> out(entries * spec.dims);
  for (std::int64_t i = 0; i < entries; ++i) {
    double* x = out.data() + i * spec.dims;
    double squares = 0;
    for (int c = 0; c < spec.dims; ++c) {
      const std::int64_t from =
          overlaps ? std::max<std::int64_t>(0, (i - 1) * spec.ratio) : i * spec.ratio;
      double m = -std::numeric_limits<double>::infinity();
      double l = 0;
      double a = 0;
      for (int pass = 0; pass < 2; ++pass) {
        for (std::int64_t t = from; t < (i + 1) * spec.ratio; ++t) {
          const int channel = overlaps && t >= i * spec.ratio ? spec.dims + c : c;
          const double score = static_cast<double>(gate[t * token_stride + channel]) +
                               ape[t % spec.ratio * channels + channel];
          if (pass == 0) {
            m = std::max(m, score);
          } else {
            l += std::exp(score - m);
            a += std::exp(score - m) * kv[t * token_stride + channel];
          }
        }
      }
      x[c] = a / l;
      squares += x[c] * x[c];
    }
    const double factor = 1.0 / std::sqrt(squares / spec.dims + spec.norm_eps);
    for (int c = 0; c < spec.dims; ++c) x[c] *= factor * bf16_to_float(norm[c]);
    if (table.cos_sin == nullptr) continue;
    const float* cos_sin = table.cos_sin + i * spec.ratio * k_rope_dims;
    double* rope = x + spec.dims - k_rope_dims;
    for (int pair = 0; pair < k_rope_dims / 2; ++pair) {
      const double even = rope[2 * pair];
      const double odd = rope[2 * pair + 1];
      rope[2 * pair] = even * cos_sin[pair] - odd * cos_sin[k_rope_dims / 2 + pair];
      rope[2 * pair + 1] = odd * cos_sin[pair] + even * cos_sin[k_rope_dims / 2 + pair];
    }
  }
  return out;
}

}  // namespace splitwave
