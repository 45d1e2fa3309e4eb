// The model's weights as the CPU engine multiplies them: every matrix dequantised once to fp32 at
// load (4 bytes a parameter: meant for the embedded model and for small checkpoints). Owns Linear,
// LayerWeights and ModelWeights; called by the engine.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model/checkpoint.h"

namespace splitwave::model {

// y = W x. quantises_input: the checkpoint stores W in fp8 or fp4, and the model rounds the input
// to e4m3 with a power-of-two scale for each 128 values before the product.
struct Linear {
  int outputs = 0;
  int inputs = 0;
  bool quantises_input = false;
  std::vector<float> values;  // [outputs, inputs]
};

struct MixingWeights {
  Linear fn;
  std::vector<float> base, scale;
};

struct CompressorWeights {
  Linear kv, gate;
  std::vector<float> ape;           // [ratio, channels]
  std::vector<std::uint16_t> norm;  // bf16 [dims]
};

struct ExpertWeights {
  Linear w1, w2, w3;
};

struct LayerWeights {
  int ratio = 0;
  MixingWeights attention_mixing, ffn_mixing;
  std::vector<float> attention_norm, ffn_norm, q_norm, kv_norm, sink;
  Linear wq_a, wq_b, wkv, wo_a, wo_b;
  CompressorWeights compressor;          // ratio 4 and 128
  Linear indexer_wq_b, indexer_weights;  // ratio 4
  CompressorWeights indexer_compressor;  // ratio 4
  Linear gate;
  std::vector<float> gate_bias;            // scored layers
  std::vector<std::int64_t> expert_table;  // hash layers: [vocab, experts_per_token]
  std::vector<ExpertWeights> experts;
  ExpertWeights shared;
};

struct ModelWeights {
  std::vector<float> embedding;  // [vocab, hidden]
  Linear head;
  std::vector<float> norm;
  MixingWeights head_mixing;
  std::vector<LayerWeights> layers;
};

// Every tensor must be there: open() has checked names, dtypes and shapes (Checkpoint::problems).
[[nodiscard]] Expected<ModelWeights> load_weights(const Checkpoint& checkpoint);

}  // namespace splitwave::model
