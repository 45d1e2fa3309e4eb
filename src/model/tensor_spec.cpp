// The list of tensors, layer by layer.
#include "model/tensor_spec.h"

namespace splitwave::model {
namespace {

constexpr std::int64_t k_fp8_block = 128;
constexpr std::int64_t k_mxfp4_group = 32;
constexpr std::int64_t k_nvfp4_group = 16;

class SpecList {
 public:
  void add(const std::string& name, DType dtype, std::vector<std::int64_t> shape, TensorRole role) {
    specs_.push_back({name, dtype, std::move(shape), role});
  }
  // A matrix in e4m3 with one e8m0 scale per 128 x 128 block.
  void add_fp8(const std::string& name, std::int64_t rows, std::int64_t columns) {
    add(name + ".weight", DType::f8_e4m3, {rows, columns}, TensorRole::weight);
    add(name + ".scale", DType::f8_e8m0,
        {(rows + k_fp8_block - 1) / k_fp8_block, (columns + k_fp8_block - 1) / k_fp8_block},
        TensorRole::weight_scale);
  }
  void add_expert_matrix(const std::string& name, ExpertFormat format, std::int64_t rows,
                         std::int64_t columns) {
    if (format == ExpertFormat::mxfp4) {
      add(name + ".weight", DType::i8, {rows, columns / 2}, TensorRole::weight);
      add(name + ".scale", DType::f8_e8m0, {rows, columns / k_mxfp4_group},
          TensorRole::weight_scale);
      return;
    }
    add(name + ".weight", DType::u8, {rows, columns / 2}, TensorRole::weight);
    add(name + ".weight_scale", DType::f8_e4m3, {rows, columns / k_nvfp4_group},
        TensorRole::weight_scale);
    add(name + ".weight_scale_2", DType::f32, {}, TensorRole::weight_scale);
    add(name + ".input_scale", DType::f32, {}, TensorRole::weight_scale);
  }
  [[nodiscard]] std::vector<TensorSpec> take() { return std::move(specs_); }

 private:
  std::vector<TensorSpec> specs_;
};

// The compressor of the main attention (dims = head_dim) or of the indexer (dims = index_head_dim).
void add_compressor(SpecList& list, const std::string& prefix, int ratio, std::int64_t dims,
                    std::int64_t hidden) {
  const std::int64_t channels = ratio == 4 ? 2 * dims : dims;  // ratio 4 overlaps two blocks
  list.add(prefix + "wkv.weight", DType::bf16, {channels, hidden}, TensorRole::weight);
  list.add(prefix + "wgate.weight", DType::bf16, {channels, hidden}, TensorRole::weight);
  list.add(prefix + "ape", DType::f32, {ratio, channels}, TensorRole::bias);
  list.add(prefix + "norm.weight", DType::bf16, {dims}, TensorRole::norm);
}

void add_attention(SpecList& list, const std::string& prefix, const ModelConfig& c, int ratio) {
  const std::int64_t head_width = std::int64_t{c.heads} * c.head_dim;
  list.add_fp8(prefix + "wq_a", c.q_lora_rank, c.hidden);
  list.add(prefix + "q_norm.weight", DType::bf16, {c.q_lora_rank}, TensorRole::norm);
  list.add_fp8(prefix + "wq_b", head_width, c.q_lora_rank);
  list.add_fp8(prefix + "wkv", c.head_dim, c.hidden);
  list.add(prefix + "kv_norm.weight", DType::bf16, {c.head_dim}, TensorRole::norm);
  list.add_fp8(prefix + "wo_a", std::int64_t{c.o_groups} * c.o_lora_rank, head_width / c.o_groups);
  list.add_fp8(prefix + "wo_b", c.hidden, std::int64_t{c.o_groups} * c.o_lora_rank);
  list.add(prefix + "attn_sink", DType::f32, {c.heads}, TensorRole::bias);
  if (ratio == 0) return;
  add_compressor(list, prefix + "compressor.", ratio, c.head_dim, c.hidden);
  if (ratio != 4) return;
  const std::string indexer = prefix + "indexer.";
  list.add_fp8(indexer + "wq_b", std::int64_t{c.index_heads} * c.index_head_dim, c.q_lora_rank);
  list.add(indexer + "weights_proj.weight", DType::bf16, {c.index_heads, c.hidden},
           TensorRole::weight);
  add_compressor(list, indexer + "compressor.", ratio, c.index_head_dim, c.hidden);
}

void add_experts(SpecList& list, const std::string& prefix, const ModelConfig& c, int layer) {
  list.add(prefix + "gate.weight", DType::bf16, {c.routed_experts, c.hidden}, TensorRole::weight);
  if (c.is_hash_layer(layer)) {
    list.add(prefix + "gate.tid2eid", DType::i64, {c.vocab_size, c.experts_per_token},
             TensorRole::expert_table);
  } else {
    list.add(prefix + "gate.bias", DType::f32, {c.routed_experts}, TensorRole::bias);
  }
  for (int e = 0; e < c.routed_experts; ++e) {
    const std::string expert = prefix + "experts." + std::to_string(e) + ".";
    list.add_expert_matrix(expert + "w1", c.expert_format, c.moe_intermediate, c.hidden);
    list.add_expert_matrix(expert + "w3", c.expert_format, c.moe_intermediate, c.hidden);
    list.add_expert_matrix(expert + "w2", c.expert_format, c.hidden, c.moe_intermediate);
  }
  list.add_fp8(prefix + "shared_experts.w1", c.moe_intermediate, c.hidden);
  list.add_fp8(prefix + "shared_experts.w3", c.moe_intermediate, c.hidden);
  list.add_fp8(prefix + "shared_experts.w2", c.hidden, c.moe_intermediate);
}

void add_mixing(SpecList& list, const std::string& prefix, std::int64_t rows, std::int64_t scales,
                const ModelConfig& c) {
  list.add(prefix + "fn", DType::f32, {rows, std::int64_t{c.hc_mult} * c.hidden},
           TensorRole::mixing);
  list.add(prefix + "base", DType::f32, {rows}, TensorRole::mixing);
  list.add(prefix + "scale", DType::f32, {scales}, TensorRole::mixing);
}

}  // namespace

std::vector<TensorSpec> tensor_specs(const ModelConfig& c) {
  SpecList list;
  list.add("embed.weight", DType::bf16, {c.vocab_size, c.hidden}, TensorRole::embedding);
  list.add("head.weight", DType::bf16, {c.vocab_size, c.hidden}, TensorRole::weight);
  list.add("norm.weight", DType::bf16, {c.hidden}, TensorRole::norm);
  add_mixing(list, "hc_head_", c.hc_mult, 1, c);
  const std::int64_t mixing_rows = std::int64_t{2 + c.hc_mult} * c.hc_mult;
  for (int layer = 0; layer < c.layers; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    add_mixing(list, prefix + "hc_attn_", mixing_rows, 3, c);
    add_mixing(list, prefix + "hc_ffn_", mixing_rows, 3, c);
    list.add(prefix + "attn_norm.weight", DType::bf16, {c.hidden}, TensorRole::norm);
    list.add(prefix + "ffn_norm.weight", DType::bf16, {c.hidden}, TensorRole::norm);
    add_attention(list, prefix + "attn.", c, c.compress_ratios[static_cast<std::size_t>(layer)]);
    add_experts(list, prefix + "ffn.", c, layer);
  }
  return list.take();
}

}  // namespace splitwave::model
