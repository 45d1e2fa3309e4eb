// Model configurations: the three dialects, the round trip, and that every problem is listed at
// once.
#include "model/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace splitwave::model {
namespace {

using Json = nlohmann::ordered_json;

// The fields of DeepSeek-V4-Flash's published config.json, cut to five layers.
Json published() {
  return Json::parse(R"({
    "architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4",
    "num_hidden_layers": 5, "hidden_size": 4096, "num_attention_heads": 64,
    "num_key_value_heads": 1, "head_dim": 512, "qk_rope_head_dim": 64, "q_lora_rank": 1024,
    "o_lora_rank": 1024, "o_groups": 8, "sliding_window": 128, "index_n_heads": 64,
    "index_head_dim": 128, "index_topk": 512, "compress_ratios": [0, 0, 4, 128, 4, 0],
    "compress_rope_theta": 160000, "rope_theta": 10000,
    "rope_scaling": {"type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
                     "original_max_position_embeddings": 65536},
    "max_position_embeddings": 1048576, "n_routed_experts": 256, "num_experts_per_tok": 6,
    "n_shared_experts": 1, "moe_intermediate_size": 2048, "num_hash_layers": 3,
    "routed_scaling_factor": 1.5, "swiglu_limit": 10.0, "hc_mult": 4, "hc_sinkhorn_iters": 20,
    "hc_eps": 1e-6, "rms_norm_eps": 1e-6, "num_nextn_predict_layers": 1, "vocab_size": 129280,
    "bos_token_id": 0, "eos_token_id": 1, "tie_word_embeddings": false})");
}

TEST(ModelConfig, ReadsThePublishedDialect) {
  const auto config = parse_model_config(published().dump(), "config.json");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->layers, 5);
  EXPECT_EQ(config->compress_ratios, (std::vector<int>{0, 0, 4, 128, 4}))
      << "the trailing entry is the draft layer's";
  EXPECT_EQ(config->compress_rope_theta, 160000);
  EXPECT_EQ(config->expert_format, ExpertFormat::mxfp4);
  EXPECT_EQ(config->routed_scaling_factor, 1.5);
  EXPECT_TRUE(config->is_hash_layer(2));
  EXPECT_FALSE(config->is_hash_layer(3));
}

TEST(ModelConfig, ReadsTheReferenceDialectToTheSameValue) {
  const Json reference = Json::parse(R"({
    "dim": 4096, "n_layers": 5, "n_heads": 64, "head_dim": 512, "rope_head_dim": 64,
    "q_lora_rank": 1024, "o_lora_rank": 1024, "o_groups": 8, "window_size": 128,
    "index_n_heads": 64, "index_head_dim": 128, "index_topk": 512,
    "compress_ratios": [0, 0, 4, 128, 4, 0], "compress_rope_theta": 160000, "rope_theta": 10000,
    "rope_factor": 16, "beta_fast": 32, "beta_slow": 1, "original_seq_len": 65536,
    "n_routed_experts": 256, "n_activated_experts": 6, "n_shared_experts": 1,
    "moe_inter_dim": 2048, "n_hash_layers": 3, "route_scale": 1.5, "swiglu_limit": 10.0,
    "hc_mult": 4, "hc_sinkhorn_iters": 20, "hc_eps": 1e-6, "norm_eps": 1e-6, "n_mtp_layers": 1,
    "vocab_size": 129280, "bos_id": 0, "eos_id": 1, "dtype": "fp8", "scale_fmt": "ue8m0",
    "expert_dtype": "fp4"})");
  const auto a = parse_model_config(published().dump(), "a");
  const auto b = parse_model_config(reference.dump(), "b");
  ASSERT_TRUE(a.ok() && b.ok()) << b.error().message;
  EXPECT_EQ(to_config_json(*a), to_config_json(*b));
}

TEST(ModelConfig, ReadsTheTransformersDialectToTheSameValue) {
  Json hf = published();
  hf.erase("compress_ratios");
  hf.erase("num_hash_layers");
  hf.erase("rope_scaling");
  hf.erase("rope_theta");
  hf.erase("compress_rope_theta");
  hf["layer_types"] = {"sliding_attention", "sliding_attention", "compressed_sparse_attention",
                       "heavily_compressed_attention", "compressed_sparse_attention"};
  hf["mlp_layer_types"] = {"hash_moe", "hash_moe", "hash_moe", "moe", "moe"};
  hf["rope_parameters"] = {{"main", {{"rope_theta", 10000}}},
                           {"compress",
                            {{"rope_theta", 160000},
                             {"factor", 16},
                             {"beta_fast", 32},
                             {"beta_slow", 1},
                             {"original_max_position_embeddings", 65536}}}};
  const auto a = parse_model_config(published().dump(), "a");
  const auto b = parse_model_config(hf.dump(), "b");
  ASSERT_TRUE(a.ok() && b.ok()) << b.error().message;
  EXPECT_EQ(to_config_json(*a), to_config_json(*b));
}

TEST(ModelConfig, WritesWhatItReads) {
  auto config = *parse_model_config(published().dump(), "a");
  config.expert_format = ExpertFormat::nvfp4;
  const auto again = parse_model_config(to_config_json(config), "b");
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->expert_format, ExpertFormat::nvfp4);
  EXPECT_EQ(to_config_json(*again), to_config_json(config));
}

TEST(ModelConfig, ListsEveryProblemAtOnceWithFieldValueAndRemedy) {
  Json bad = published();
  bad["hidden_size"] = 0;
  bad["index_topk"] = "many";
  bad.erase("q_lora_rank");
  bad["rms_norm_eps"] = -1;
  bad["compress_ratios"][2] = 7;
  const auto config = parse_model_config(bad.dump(), "c.json");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().kind, ErrorKind::bad_input);
  for (const char* part :
       {"c.json", "hidden_size: 0, need an integer in 128..", "index_topk: \"many\"",
        "q_lora_rank: missing", "rms_norm_eps: -1", "compress_ratios: 7, need 0, 4 or 128"}) {
    EXPECT_NE(config.error().message.find(part), std::string::npos)
        << part << " not in " << config.error().message;
  }
}

TEST(ModelConfig, RefusesTextThatIsNotAnObject) {
  EXPECT_FALSE(parse_model_config("[1, 2", "x").ok());
  EXPECT_FALSE(parse_model_config("[]", "x").ok());
  EXPECT_FALSE(parse_model_config("", "x").ok());
}

}  // namespace
}  // namespace splitwave::model
