// Reads and writes model configurations. One table of fields with their names in each dialect.
#include "model/config.h"

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

namespace splitwave::model {
namespace {

using Json = nlohmann::ordered_json;

// Collects every problem of one text.
class Problems {
 public:
  explicit Problems(std::string source) : source_(std::move(source)) {}
  void add(const std::string& problem) { text_ += "\n  " + problem; }
  [[nodiscard]] bool any() const { return !text_.empty(); }
  [[nodiscard]] Error error() const { return bad_input(source_ + ":" + text_); }

 private:
  std::string source_;
  std::string text_;
};

std::string shown(const Json& value) {
  std::string text = value.dump();
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

struct IntField {
  const char* published;
  const char* inference;  // the name in inference/config.json
  int ModelConfig::*member;
  int least, most;
  bool required;
};

constexpr int k_dims_max = 1 << 20;

const IntField k_int_fields[] = {
    {"num_hidden_layers", "n_layers", &ModelConfig::layers, 1, 1024, true},
    {"hidden_size", "dim", &ModelConfig::hidden, 128, k_dims_max, true},
    {"num_attention_heads", "n_heads", &ModelConfig::heads, 1, 128, true},
    {"head_dim", "head_dim", &ModelConfig::head_dim, 512, 512, false},
    {"qk_rope_head_dim", "rope_head_dim", &ModelConfig::rope_dims, 64, 64, false},
    {"q_lora_rank", "q_lora_rank", &ModelConfig::q_lora_rank, 1, k_dims_max, true},
    {"o_lora_rank", "o_lora_rank", &ModelConfig::o_lora_rank, 1, k_dims_max, true},
    {"o_groups", "o_groups", &ModelConfig::o_groups, 1, 128, true},
    {"sliding_window", "window_size", &ModelConfig::sliding_window, 1, 4096, false},
    {"index_n_heads", "index_n_heads", &ModelConfig::index_heads, 1, 128, true},
    {"index_head_dim", "index_head_dim", &ModelConfig::index_head_dim, 128, 128, false},
    {"index_topk", "index_topk", &ModelConfig::index_topk, 1, 4096, true},
    {"max_position_embeddings", "max_seq_len", &ModelConfig::max_positions, 1, 1 << 24, false},
    {"n_routed_experts", "n_routed_experts", &ModelConfig::routed_experts, 1, 4096, true},
    {"num_experts_per_tok", "n_activated_experts", &ModelConfig::experts_per_token, 1, 64, true},
    {"n_shared_experts", "n_shared_experts", &ModelConfig::shared_experts, 1, 1, false},
    {"moe_intermediate_size", "moe_inter_dim", &ModelConfig::moe_intermediate, 1, k_dims_max, true},
    {"num_hash_layers", "n_hash_layers", &ModelConfig::hash_layers, 0, 1024, false},
    {"hc_mult", "hc_mult", &ModelConfig::hc_mult, 1, 8, false},
    {"hc_sinkhorn_iters", "hc_sinkhorn_iters", &ModelConfig::hc_sinkhorn_iterations, 1, 1000,
     false},
    {"vocab_size", "vocab_size", &ModelConfig::vocab_size, 2, 1 << 24, true},
    {"bos_token_id", "bos_id", &ModelConfig::bos_token, 0, 1 << 24, false},
    {"eos_token_id", "eos_id", &ModelConfig::eos_token, 0, 1 << 24, false},
    {"num_nextn_predict_layers", "n_mtp_layers", &ModelConfig::mtp_layers, 0, 16, false},
};

struct RealField {
  const char* published;
  const char* inference;
  double ModelConfig::*member;
};

const RealField k_real_fields[] = {
    {"rope_theta", "rope_theta", &ModelConfig::rope_theta},
    {"compress_rope_theta", "compress_rope_theta", &ModelConfig::compress_rope_theta},
    {"routed_scaling_factor", "route_scale", &ModelConfig::routed_scaling_factor},
    {"swiglu_limit", "swiglu_limit", &ModelConfig::swiglu_limit},
    {"hc_eps", "hc_eps", &ModelConfig::hc_eps},
    {"rms_norm_eps", "norm_eps", &ModelConfig::rms_norm_eps},
};

// The field under either of its names, or null.
const Json* find(const Json& json, const char* published, const char* inference) {
  if (const auto it = json.find(published); it != json.end() && !it->is_null()) return &*it;
  if (const auto it = json.find(inference); it != json.end() && !it->is_null()) return &*it;
  return nullptr;
}

void read_ints(const Json& json, ModelConfig& config, Problems& problems) {
  for (const IntField& field : k_int_fields) {
    const Json* value = find(json, field.published, field.inference);
    const std::string name = field.published;
    if (value == nullptr) {
      if (field.required)
        problems.add(name + ": missing (inference dialect: " + field.inference + ")");
      continue;
    }
    const std::string range =
        ", need an integer in " + std::to_string(field.least) + ".." + std::to_string(field.most);
    if (!value->is_number_integer()) {
      problems.add(name + ": " + shown(*value) + range);
      continue;
    }
    const auto number = value->get<std::int64_t>();
    if (number < field.least || number > field.most) {
      problems.add(name + ": " + std::to_string(number) + range);
      continue;
    }
    config.*field.member = static_cast<int>(number);
  }
}

void read_reals(const Json& json, ModelConfig& config, Problems& problems) {
  for (const RealField& field : k_real_fields) {
    const Json* value = find(json, field.published, field.inference);
    if (value == nullptr) continue;
    if (!value->is_number() || !(value->get<double>() > 0) ||
        !std::isfinite(value->get<double>())) {
      problems.add(std::string(field.published) + ": " + shown(*value) +
                   ", need a positive number");
      continue;
    }
    config.*field.member = value->get<double>();
  }
}

void read_positive(const Json& json, const char* name, double& out, Problems& problems) {
  const auto it = json.find(name);
  if (it == json.end() || it->is_null()) return;
  if (!it->is_number() || !(it->get<double>() > 0)) {
    problems.add(std::string("rope_scaling.") + name + ": " + shown(*it) +
                 ", need a positive number");
    return;
  }
  out = it->get<double>();
}

// rope_scaling (published), rope_parameters {main, compress} (transformers) or flat (inference).
void read_rope(const Json& json, ModelConfig& config, Problems& problems) {
  const Json* scaling = &json;
  if (const auto it = json.find("rope_scaling"); it != json.end() && it->is_object()) {
    scaling = &*it;
  } else if (const auto both = json.find("rope_parameters");
             both != json.end() && both->is_object()) {
    if (const auto main = both->find("main"); main != both->end() && main->is_object()) {
      read_positive(*main, "rope_theta", config.rope_theta, problems);
    }
    if (const auto compress = both->find("compress"); compress != both->end()) {
      if (!compress->is_object()) {
        problems.add("rope_parameters.compress: " + shown(*compress) + ", need an object");
        return;
      }
      read_positive(*compress, "rope_theta", config.compress_rope_theta, problems);
      scaling = &*compress;
    }
  }
  read_positive(*scaling, scaling == &json ? "rope_factor" : "factor", config.yarn.factor,
                problems);
  read_positive(*scaling, "beta_fast", config.yarn.beta_fast, problems);
  read_positive(*scaling, "beta_slow", config.yarn.beta_slow, problems);
  double original = config.yarn.original_max_positions;
  read_positive(*scaling,
                scaling == &json ? "original_seq_len" : "original_max_position_embeddings",
                original, problems);
  config.yarn.original_max_positions = static_cast<int>(original);
}

// One ratio a layer from compress_ratios (trailing entries are the draft layers') or layer_types.
void read_ratios(const Json& json, ModelConfig& config, Problems& problems) {
  if (const auto it = json.find("compress_ratios"); it != json.end() && it->is_array()) {
    for (const Json& entry : *it) {
      if (entry != 0 && entry != 4 && entry != 128) {
        problems.add("compress_ratios: " + shown(entry) + ", need 0, 4 or 128");
        return;
      }
      config.compress_ratios.push_back(entry.get<int>());
    }
  } else if (const auto types = json.find("layer_types");
             types != json.end() && types->is_array()) {
    for (const Json& entry : *types) {
      const int ratio = entry == "sliding_attention"              ? 0
                        : entry == "compressed_sparse_attention"  ? 4
                        : entry == "heavily_compressed_attention" ? 128
                                                                  : -1;
      if (ratio < 0) {
        problems.add("layer_types: " + shown(entry) +
                     ", need sliding_attention, compressed_sparse_attention or "
                     "heavily_compressed_attention");
        return;
      }
      config.compress_ratios.push_back(ratio);
    }
  } else {
    problems.add("compress_ratios: missing (transformers dialect: layer_types)");
    return;
  }
  if (static_cast<int>(config.compress_ratios.size()) < config.layers) {
    problems.add("compress_ratios: " + std::to_string(config.compress_ratios.size()) +
                 " entries for " + std::to_string(config.layers) + " layers");
    return;
  }
  config.compress_ratios.resize(static_cast<std::size_t>(config.layers));
}

// mlp_layer_types (transformers) counts the leading hash layers.
void read_hash_layers(const Json& json, ModelConfig& config, Problems& problems) {
  const auto types = json.find("mlp_layer_types");
  if (types == json.end() || !types->is_array()) return;
  int hash_layers = 0;
  bool past_hash = false;
  for (const Json& entry : *types) {
    if (entry == "hash_moe" && !past_hash) {
      ++hash_layers;
    } else if (entry == "moe") {
      past_hash = true;
    } else {
      problems.add("mlp_layer_types: " + shown(entry) +
                   ", need hash_moe entries, then moe entries");
      return;
    }
  }
  config.hash_layers = hash_layers;
}

void read_expert_format(const Json& json, ModelConfig& config, Problems& problems) {
  if (const auto it = json.find("moe_quant_algo"); it != json.end() && *it == "NVFP4") {
    config.expert_format = ExpertFormat::nvfp4;
    return;
  }
  if (const auto quant = json.find("quantization_config");
      quant != json.end() && quant->is_object()) {
    if (const auto it = quant->find("moe_quant_algo"); it != quant->end() && *it == "NVFP4") {
      config.expert_format = ExpertFormat::nvfp4;
      return;
    }
  }
  const auto it = json.find("expert_dtype");  // absent in the April release: fp4
  if (it != json.end() && *it != "fp4") {
    problems.add("expert_dtype: " + shown(*it) +
                 ", need \"fp4\" (MXFP4) or moe_quant_algo \"NVFP4\"");
  }
}

void check_relations(const ModelConfig& c, Problems& problems) {
  if (c.hidden % 128 != 0) {
    problems.add("hidden_size: " + std::to_string(c.hidden) + ", need a multiple of 128");
  }
  if (c.heads * c.head_dim % c.o_groups != 0) {
    problems.add("o_groups: " + std::to_string(c.o_groups) +
                 " does not divide heads * head_dim = " + std::to_string(c.heads * c.head_dim));
  }
  if (c.moe_intermediate % 32 != 0) {
    problems.add("moe_intermediate_size: " + std::to_string(c.moe_intermediate) +
                 ", need a multiple of 32 (the fp4 scale group)");
  }
  if (c.experts_per_token > c.routed_experts) {
    problems.add("num_experts_per_tok: " + std::to_string(c.experts_per_token) + " of " +
                 std::to_string(c.routed_experts) + " experts");
  }
  if (c.hash_layers > c.layers) {
    problems.add("num_hash_layers: " + std::to_string(c.hash_layers) + " of " +
                 std::to_string(c.layers) + " layers");
  }
}

}  // namespace

Expected<ModelConfig> parse_model_config(const std::string& text, const std::string& source) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) {
    return bad_input(source + ": not a JSON object; need a model's config.json");
  }
  Problems problems(source);
  ModelConfig config;
  if (const auto it = json.find("model_type"); it != json.end() && *it != "deepseek_v4") {
    problems.add("model_type: " + shown(*it) + ", need \"deepseek_v4\"");
  }
  read_ints(json, config, problems);
  read_reals(json, config, problems);
  read_rope(json, config, problems);
  read_hash_layers(json, config, problems);
  read_expert_format(json, config, problems);
  if (config.layers > 0) read_ratios(json, config, problems);
  if (config.max_positions == 0) config.max_positions = 1048576;
  if (!problems.any()) check_relations(config, problems);
  if (problems.any()) return problems.error();
  return config;
}

std::string to_config_json(const ModelConfig& c) {
  Json json;
  json["architectures"] = {"DeepseekV4ForCausalLM"};
  json["model_type"] = "deepseek_v4";
  for (const IntField& field : k_int_fields) json[field.published] = c.*field.member;
  json["num_key_value_heads"] = 1;
  for (const RealField& field : k_real_fields) json[field.published] = c.*field.member;
  json["compress_ratios"] = c.compress_ratios;
  json["rope_scaling"] = {{"type", "yarn"},
                          {"factor", c.yarn.factor},
                          {"beta_fast", c.yarn.beta_fast},
                          {"beta_slow", c.yarn.beta_slow},
                          {"original_max_position_embeddings", c.yarn.original_max_positions}};
  json["scoring_func"] = "sqrtsoftplus";
  json["topk_method"] = "noaux_tc";
  json["norm_topk_prob"] = true;
  json["hidden_act"] = "silu";
  json["tie_word_embeddings"] = false;
  json["torch_dtype"] = "bfloat16";
  json["expert_dtype"] = "fp4";
  if (c.expert_format == ExpertFormat::nvfp4) json["moe_quant_algo"] = "NVFP4";
  json["quantization_config"] = {{"quant_method", "fp8"},
                                 {"fmt", "e4m3"},
                                 {"scale_fmt", "ue8m0"},
                                 {"activation_scheme", "dynamic"},
                                 {"weight_block_size", {128, 128}}};
  return json.dump(2) + "\n";
}

}  // namespace splitwave::model
