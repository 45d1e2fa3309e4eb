// The compressor's meaning, twice. reference_compress: exact fp32 steps, token by token, the bits
// that every backend gives. compress_in_double: the formula of the report on a whole sequence,
// which bounds what those steps may lose. Host memory only.
#pragma once

#include <vector>

#include "splitwave/ops.h"

namespace splitwave {

// Channels of one token: 2 * dims with overlap, dims without.
[[nodiscard]] constexpr int compressor_channels(const CompressorSpec& spec) {
  return spec.ratio == k_compressor_overlap_ratio ? 2 * spec.dims : spec.dims;
}
inline constexpr int k_compressor_ring_tokens = 8;

void reference_compress(const CompressorSpec& spec, const CompressCall& call);
void reference_copy_state(const CompressorSpec& spec, const StateCopyCall& call);

// One token of one sequence: the state of its slot changes; on a boundary (returned) pooled holds
// the dims pooled values.
bool compressor_step(const CompressorSpec& spec, const float* kv, const float* gate,
                     const float* ape, std::int64_t position, float* state, float* pooled);
// pooled -> bf16, RMS norm, RoPE by a table row (null: none), Hadamard if the spec asks: dims bf16.
void finish_entry(const CompressorSpec& spec, const float* pooled, const std::uint16_t* norm,
                  const float* cos_sin, std::uint16_t* entry);
// Where a finished entry goes: call.slots[token] of the cache, or row token of rows_out.
void store_entry(const CompressorSpec& spec, const CompressCall& call, std::int64_t token,
                 const std::uint16_t* entry);
// True if the boundary token's entry has a home: a slot in the pool and a position in the table.
[[nodiscard]] bool entry_is_live(const CompressorSpec& spec, const CompressCall& call,
                                 std::int64_t token, std::int64_t position);

// The entries of one sequence of tokens tokens from position 0, in double throughout, after norm
// and RoPE, before Hadamard and quantisation: [tokens / ratio, dims].
[[nodiscard]] std::vector<double> compress_in_double(const CompressorSpec& spec, const float* kv,
                                                     const float* gate, std::int64_t tokens,
                                                     std::int64_t token_stride, const float* ape,
                                                     const std::uint16_t* norm,
                                                     const RopeTable& table);

}  // namespace splitwave
