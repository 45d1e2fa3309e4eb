// Logits kernels: fp8 keys read as bf16, bf16 query.
#include "kernels/cuda/indexer/instantiate.cuh"

namespace splitwave::cuda {

const LogitsLaunchers& logits_fp8_bf16_query_launchers() {
  return logits_launchers<IndexerFormat::fp8, IndexerQuery::bf16>();
}

}  // namespace splitwave::cuda
