// Host-visible argument checks of the operators. Owns every rule of splitwave/ops.h that can be
// checked without reading the caller's memory: a refusal names the field, its value and what works.
// Called by ops.cpp before a backend sees a spec or a call. Success allocates nothing.
#pragma once

#include "splitwave/ops.h"

namespace splitwave {

[[nodiscard]] Status check_indexer_spec(const IndexerSpec& spec);
[[nodiscard]] Status check_logits_call(const IndexerSpec& spec, const LogitsCall& call);
[[nodiscard]] Status check_top_k_call(const IndexerSpec& spec, const TopKCall& call);
[[nodiscard]] Status check_select_call(const IndexerSpec& spec, const SelectCall& call);
[[nodiscard]] Status check_kv_write_call(const KvWriteCall& call);
[[nodiscard]] Status check_indexer_key_write_call(const IndexerKeyWriteCall& call);
[[nodiscard]] Status check_indexer_query_call(const IndexerQueryCall& call);
[[nodiscard]] Status check_compressor_spec(const CompressorSpec& spec);
[[nodiscard]] Status check_compress_call(const CompressorSpec& spec, const CompressCall& call);
[[nodiscard]] Status check_state_copy_call(const StateCopyCall& call);

}  // namespace splitwave
