// The V4 model's configuration. Owns ModelConfig and its readers: the published config.json, the
// transformers dialect (layer_types, compress_rates, rope_parameters) and the reference's
// inference/config.json (dim, n_layers, ...). Every field is checked; problems are listed together.
// Called by the checkpoint reader and the model builder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "splitwave/status.h"

namespace splitwave::model {

// How the routed experts' weights are stored.
enum class ExpertFormat : std::uint8_t {
  mxfp4,  // e2m1 codes, e8m0 scale per 32 along K
  nvfp4,  // e2m1 codes, e4m3 scale per 16 along K, fp32 scale_2 a tensor
};

struct YarnScaling {
  double factor = 16;
  double beta_fast = 32;
  double beta_slow = 1;
  int original_max_positions = 65536;
};

struct ModelConfig {
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int head_dim = 512;
  int rope_dims = 64;  // the last rope_dims of a head
  int q_lora_rank = 0;
  int o_lora_rank = 0;
  int o_groups = 0;
  int sliding_window = 128;
  int index_heads = 0;
  int index_head_dim = 128;
  int index_topk = 0;
  std::vector<int> compress_ratios;     // one a layer: 0 (window only), 4 or 128
  double rope_theta = 10000;            // ratio-0 layers, no YaRN
  double compress_rope_theta = 160000;  // the others, with YaRN
  YarnScaling yarn;
  int max_positions = 0;
  int routed_experts = 0;
  int experts_per_token = 0;
  int shared_experts = 1;
  int moe_intermediate = 0;
  int hash_layers = 0;  // the first hash_layers layers route by token id
  double routed_scaling_factor = 1;
  double swiglu_limit = 10;
  int hc_mult = 4;
  int hc_sinkhorn_iterations = 20;
  double hc_eps = 1e-6;
  double rms_norm_eps = 1e-6;
  int vocab_size = 0;
  int bos_token = 0;
  int eos_token = 1;
  int mtp_layers = 0;  // draft layers in the checkpoint; read past, never run
  ExpertFormat expert_format = ExpertFormat::mxfp4;

  [[nodiscard]] int nope_dims() const { return head_dim - rope_dims; }
  [[nodiscard]] bool is_hash_layer(int layer) const { return layer < hash_layers; }
};

// Reads any of the three dialects. source names the text in error messages. All problems of the
// text are in the one message, a line each.
[[nodiscard]] Expected<ModelConfig> parse_model_config(const std::string& text,
                                                       const std::string& source);
// The published dialect; parse_model_config reads it back to an equal value.
[[nodiscard]] std::string to_config_json(const ModelConfig& config);

}  // namespace splitwave::model
