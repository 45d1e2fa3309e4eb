// Logits kernels: bf16 keys, bf16 query.
#include "kernels/cuda/indexer/instantiate.cuh"

namespace splitwave::cuda {

const LogitsLaunchers& logits_bf16_launchers() {
  return logits_launchers<IndexerFormat::bf16, IndexerQuery::bf16>();
}

}  // namespace splitwave::cuda
