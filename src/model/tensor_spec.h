// Which tensors a V4 checkpoint must hold: names, dtypes and shapes for a configuration, as the
// published checkpoints spell them. Called by the checkpoint reader (checks) and make_tiny
// (writes).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/safetensors.h"

namespace splitwave::model {

// What a tensor's values are for: decides how make_tiny draws them.
enum class TensorRole : std::uint8_t {
  weight,        // a matrix: normal, variance 1 / fan-in
  weight_scale,  // the scales of the weight named before it
  embedding,
  norm,          // near 1
  mixing,        // mHC function, base, scale
  bias,          // small: gate bias, ape, sink
  expert_table,  // tid2eid
};

struct TensorSpec {
  std::string name;
  DType dtype = DType::bf16;
  std::vector<std::int64_t> shape;
  TensorRole role = TensorRole::weight;
};

// Every tensor of the main model, in a stable order; a scale follows its weight. Draft layers
// (mtp.*) are not listed: they may be present and are ignored.
[[nodiscard]] std::vector<TensorSpec> tensor_specs(const ModelConfig& config);

}  // namespace splitwave::model
