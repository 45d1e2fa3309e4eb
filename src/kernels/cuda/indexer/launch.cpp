// Finds the kernel for a problem.
#include "kernels/cuda/indexer/launch.h"

namespace splitwave::cuda {

const LogitsLaunchers& logits_launchers(IndexerFormat keys, IndexerQuery query) {
  const bool is_bf16_query = query == IndexerQuery::bf16;
  if (keys == IndexerFormat::bf16) return logits_bf16_launchers();
  if (keys == IndexerFormat::fp8) {
    return is_bf16_query ? logits_fp8_bf16_query_launchers() : logits_fp8_launchers();
  }
  return is_bf16_query ? logits_fp4_bf16_query_launchers() : logits_fp4_launchers();
}

const LogitsLauncher& find_logits_launcher(const IndexerSpec& spec, int page_size) {
  const LogitsLaunchers& all = logits_launchers(spec.keys, spec.query);
  const bool is_aligned = page_size % k_logit_tile_keys == 0;
  for (const LogitsLauncher& one : all) {
    if (one.config.head_tiles * 8 >= spec.heads && one.config.is_page_aligned == is_aligned) {
      return one;
    }
  }
  return all.back();  // heads <= 64 has been checked
}

}  // namespace splitwave::cuda
