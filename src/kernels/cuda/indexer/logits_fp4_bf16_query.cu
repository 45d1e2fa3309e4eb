// Logits kernels: fp4 keys, bf16 query.
#include "kernels/cuda/indexer/instantiate.cuh"

namespace splitwave::cuda {

const LogitsLaunchers& logits_fp4_bf16_query_launchers() {
  return logits_launchers<IndexerFormat::fp4, IndexerQuery::bf16>();
}

}  // namespace splitwave::cuda
