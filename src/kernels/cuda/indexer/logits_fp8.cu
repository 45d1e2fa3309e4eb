// Logits kernels: fp8 keys, fp8 query, f16 operands.
#include "kernels/cuda/indexer/instantiate.cuh"

namespace splitwave::cuda {

const LogitsLaunchers& logits_fp8_launchers() {
  return logits_launchers<IndexerFormat::fp8, IndexerQuery::native>();
}

}  // namespace splitwave::cuda
