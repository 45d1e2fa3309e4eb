// Logits kernels: fp4 keys, fp4 query, bf16 operands.
#include "kernels/cuda/indexer/instantiate.cuh"

namespace splitwave::cuda {

const LogitsLaunchers& logits_fp4_launchers() {
  return logits_launchers<IndexerFormat::fp4, IndexerQuery::native>();
}

}  // namespace splitwave::cuda
