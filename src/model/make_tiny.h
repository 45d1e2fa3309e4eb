// Writes a small V4 checkpoint: the published tensor names, formats and head sizes, random values
// that are the same for the same seed on every machine. Owns TinyOptions and make_tiny; called by
// `splitwave model make-tiny` and by tests.
#pragma once

#include <cstdint>
#include <string>

#include "model/config.h"

namespace splitwave::model {

struct TinyOptions {
  std::uint64_t seed = 1;
  ExpertFormat expert_format = ExpertFormat::mxfp4;
  int vocab_size = 4096;
};

// head_dim 512, RoPE 64, indexer 128, window 128, layers [0,0,4,128,4,128,4], hash and scored
// layers.
[[nodiscard]] ModelConfig tiny_config(const TinyOptions& options);

// Creates the directory when absent; writes model.safetensors, the tokenizer (when its 4,096 ids
// fit the vocabulary) and config.json last, each atomically.
[[nodiscard]] Status make_tiny(const std::string& directory, const TinyOptions& options);

}  // namespace splitwave::model
