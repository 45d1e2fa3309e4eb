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

namespace {

// wgmma where it is built, fits and pays: below 9 heads the keys' traffic is the limit anyway.
const LogitsLauncher* find_wgmma_launcher([[maybe_unused]] const IndexerSpec& spec,
                                          [[maybe_unused]] int page_size,
                                          [[maybe_unused]] int arch) {
#if defined(SPLITWAVE_SM90A_LOGITS)
  constexpr int k_heads_worth_it = 9;
  if (arch != 90 || spec.keys != IndexerFormat::fp8 || spec.query != IndexerQuery::native ||
      spec.heads < k_heads_worth_it) {
    return nullptr;
  }
  for (const LogitsLauncher& one : logits_fp8_wgmma_launchers()) {
    if (one.head_tiles * 8 >= spec.heads && page_size % one.page_multiple == 0) return &one;
  }
#endif
  return nullptr;
}

}  // namespace

const LogitsLauncher& find_logits_launcher(const IndexerSpec& spec, int page_size, int arch) {
  if (const LogitsLauncher* hopper = find_wgmma_launcher(spec, page_size, arch)) return *hopper;
  const LogitsLaunchers& all = logits_launchers(spec.keys, spec.query);
  const int multiple = page_size % k_logit_tile_keys == 0 ? k_logit_tile_keys : 1;
  for (const LogitsLauncher& one : all) {
    if (one.head_tiles * 8 >= spec.heads && one.page_multiple == multiple) return one;
  }
  return all.back();  // heads <= 64 has been checked
}

}  // namespace splitwave::cuda
