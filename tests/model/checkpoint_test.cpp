// A checkpoint directory: problems are listed together, draft layers are read past.
#include "model/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "model/tensor_spec.h"
#include "support/temp_dir.h"

namespace splitwave::model {
namespace {

ModelConfig small_config() {
  ModelConfig c;
  c.layers = 4;
  c.hidden = 128;
  c.heads = 2;
  c.q_lora_rank = 64;
  c.o_lora_rank = 32;
  c.o_groups = 2;
  c.index_heads = 2;
  c.index_topk = 16;
  c.compress_ratios = {0, 4, 128, 4};
  c.max_positions = 1024;
  c.routed_experts = 4;
  c.experts_per_token = 2;
  c.moe_intermediate = 64;
  c.hash_layers = 2;
  c.vocab_size = 32;
  return c;
}

// Writes all tensors of the specs, zero-filled, in two shards.
void write_checkpoint(const test::TempDir& dir, const ModelConfig& config,
                      const std::vector<TensorSpec>& specs) {
  std::ofstream(dir.file("config.json")) << to_config_json(config);
  const std::vector<std::uint8_t> zeros(1 << 20);
  std::vector<TensorToWrite> shards[2];
  for (std::size_t i = 0; i < specs.size(); ++i) {
    shards[i % 2].push_back({specs[i].name, specs[i].dtype, specs[i].shape, zeros.data()});
  }
  ASSERT_TRUE(write_safetensors(dir.file("model-1.safetensors"), shards[0]).ok());
  ASSERT_TRUE(write_safetensors(dir.file("model-2.safetensors"), shards[1]).ok());
}

TEST(Checkpoint, FindsEveryTensorOfACompleteDirectory) {
  const test::TempDir dir;
  const auto specs = tensor_specs(small_config());
  write_checkpoint(dir, small_config(), specs);
  const auto checkpoint = Checkpoint::open(dir.path().string());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_TRUE(checkpoint->problems().empty()) << checkpoint->problems().front();
  EXPECT_EQ(checkpoint->tensors().size(), specs.size());
  const Tensor* wq_b = checkpoint->find("layers.1.attn.indexer.wq_b.weight");
  ASSERT_NE(wq_b, nullptr);
  EXPECT_EQ(wq_b->shape, (std::vector<std::int64_t>{256, 64}));
}

TEST(Checkpoint, ListsMissingAndMisshapenTensorsTogether) {
  const test::TempDir dir;
  auto specs = tensor_specs(small_config());
  std::erase_if(specs, [](const TensorSpec& s) { return s.name == "layers.2.attn.attn_sink"; });
  for (TensorSpec& spec : specs) {
    if (spec.name == "norm.weight") spec.dtype = DType::f32;
    if (spec.name == "layers.0.ffn.gate.tid2eid") spec.shape = {32, 3};
  }
  specs.push_back({"mtp.0.enorm.weight", DType::bf16, {128}, TensorRole::norm});
  write_checkpoint(dir, small_config(), specs);
  const auto checkpoint = Checkpoint::open(dir.path().string());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const std::vector<std::string> expected = {
      "norm.weight: is F32 [128], need BF16 [128]",
      "layers.0.ffn.gate.tid2eid: is I64 [32, 3], need I64 [32, 2]",
      "layers.2.attn.attn_sink: missing, need F32 [2]"};
  EXPECT_EQ(checkpoint->problems(), expected);
}

TEST(Checkpoint, SaysWhatADirectoryLacks) {
  EXPECT_EQ(Checkpoint::open("/no/such/dir").error().kind, ErrorKind::environment);
  const test::TempDir dir;
  EXPECT_NE(Checkpoint::open(dir.path().string()).error().message.find("config.json"),
            std::string::npos);
}

TEST(TensorSpecs, SpellThePublishedNamesAndShapesOfFlash) {
  ModelConfig flash = small_config();
  flash.hidden = 4096;
  flash.heads = 64;
  flash.q_lora_rank = 1024;
  flash.o_lora_rank = 1024;
  flash.o_groups = 8;
  flash.index_heads = 64;
  flash.routed_experts = 256;
  flash.experts_per_token = 6;
  flash.moe_intermediate = 2048;
  flash.vocab_size = 129280;
  const auto specs = tensor_specs(flash);
  const auto expect = [&](const std::string& name, const std::string& shape) {
    const auto it = std::find_if(specs.begin(), specs.end(),
                                 [&](const TensorSpec& s) { return s.name == name; });
    ASSERT_NE(it, specs.end()) << name;
    EXPECT_EQ(describe(it->dtype, it->shape), shape) << name;
  };
  expect("layers.0.hc_attn_fn", "F32 [24, 16384]");
  expect("layers.0.attn.wq_b.weight", "F8_E4M3 [32768, 1024]");
  expect("layers.0.attn.wq_b.scale", "F8_E8M0 [256, 8]");
  expect("layers.0.attn.wo_a.weight", "F8_E4M3 [8192, 4096]");
  expect("layers.1.attn.compressor.wkv.weight", "BF16 [1024, 4096]");
  expect("layers.2.attn.compressor.ape", "F32 [128, 512]");
  expect("layers.1.attn.indexer.compressor.ape", "F32 [4, 256]");
  expect("layers.0.ffn.gate.tid2eid", "I64 [129280, 6]");
  expect("layers.2.ffn.gate.bias", "F32 [256]");
  expect("layers.0.ffn.experts.255.w2.weight", "I8 [4096, 1024]");
  expect("layers.0.ffn.experts.0.w1.scale", "F8_E8M0 [2048, 128]");
  expect("layers.0.ffn.shared_experts.w2.scale", "F8_E8M0 [32, 16]");
  expect("hc_head_fn", "F32 [4, 16384]");
}

}  // namespace
}  // namespace splitwave::model
