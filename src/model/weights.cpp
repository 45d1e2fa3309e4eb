// Dequantisation: fp8 with a scale a 128 x 128 block, MXFP4 with a scale for 32 inputs, NVFP4 with
// an e4m3 scale for 16 inputs and one fp32 scale a tensor, bf16, fp32.
#include "model/weights.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "formats/bf16.h"
#include "formats/e8m0.h"
#include "formats/fp4.h"
#include "formats/fp8.h"
#include "kernels/cpu/gemm.h"

namespace splitwave::model {
namespace {

class Loader {
 public:
  explicit Loader(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  const Tensor& tensor(const std::string& name) {
    const Tensor* found = checkpoint_.find(name);
    SPLITWAVE_CHECK(found != nullptr, name + " was checked to be there");
    return *found;
  }

  // bf16 or fp32, as fp32.
  std::vector<float> floats(const std::string& name) {
    const Tensor& t = tensor(name);
    std::vector<float> out(static_cast<std::size_t>(t.bytes / size_bytes(t.dtype)));
    if (t.dtype == DType::f32) {
      std::memcpy(out.data(), t.data, out.size() * sizeof(float));
      return out;
    }
    SPLITWAVE_CHECK(t.dtype == DType::bf16, name + " is bf16 or fp32");
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = bf16_to_float(word(t, i));
    return out;
  }

  std::vector<std::uint16_t> words(const std::string& name) {
    const Tensor& t = tensor(name);
    std::vector<std::uint16_t> out(static_cast<std::size_t>(t.bytes / 2));
    std::memcpy(out.data(), t.data, out.size() * 2);
    return out;
  }

  // prefix.weight in fp8 with prefix.scale.
  Linear fp8(const std::string& prefix) {
    const Tensor& w = tensor(prefix + ".weight");
    const Tensor& scales = tensor(prefix + ".scale");
    Linear out = shaped(w.shape[0], w.shape[1], true);
    const std::int64_t scale_columns = scales.shape[1];
    for (std::int64_t r = 0; r < w.shape[0]; ++r) {
      for (std::int64_t c = 0; c < w.shape[1]; ++c) {
        const float scale = decode_e8m0(scales.data[(r / 128) * scale_columns + c / 128]);
        out.values[index(r, c, out)] = decode_e4m3(w.data[r * w.shape[1] + c]) * scale;
      }
    }
    return out;
  }

  Linear plain(const std::string& name) {
    const Tensor& w = tensor(name);
    Linear out = shaped(w.shape[0], w.shape[1], false);
    out.values = floats(name);
    return out;
  }

  Linear fp4(const std::string& prefix, ExpertFormat format) {
    const Tensor& w = tensor(prefix + ".weight");
    const bool is_mx = format == ExpertFormat::mxfp4;
    const std::int64_t columns = 2 * w.shape[1];
    const std::int64_t group = is_mx ? 32 : 16;
    const Tensor& scales = tensor(prefix + (is_mx ? ".scale" : ".weight_scale"));
    const float scale_2 = is_mx ? 1.0F : floats(prefix + ".weight_scale_2").front();
    Linear out = shaped(w.shape[0], columns, true);
    for (std::int64_t r = 0; r < w.shape[0]; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::uint8_t code = scales.data[r * (columns / group) + c / group];
        const float scale = is_mx ? decode_e8m0(code) : decode_e4m3(code) * scale_2;
        const std::uint8_t pair = w.data[r * w.shape[1] + c / 2];
        out.values[index(r, c, out)] = decode_e2m1(unpack_e2m1(pair, c % 2 != 0)) * scale;
      }
    }
    return out;
  }

 private:
  static std::uint16_t word(const Tensor& t, std::size_t i) {
    std::uint16_t code = 0;
    std::memcpy(&code, t.data + 2 * i, 2);
    return code;
  }
  static std::size_t index(std::int64_t r, std::int64_t c, const Linear& of) {
    return static_cast<std::size_t>(r * of.inputs + c);
  }
  static Linear shaped(std::int64_t outputs, std::int64_t inputs, bool quantises_input) {
    Linear out;
    out.outputs = static_cast<int>(outputs);
    out.inputs = static_cast<int>(inputs);
    out.quantises_input = quantises_input;
    out.values.resize(static_cast<std::size_t>(outputs * inputs));
    return out;
  }

  const Checkpoint& checkpoint_;
};

MixingWeights load_mixing(Loader& load, const std::string& prefix) {
  return {load.plain(prefix + "fn"), load.floats(prefix + "base"), load.floats(prefix + "scale")};
}

CompressorWeights load_compressor(Loader& load, const std::string& prefix) {
  return {load.plain(prefix + "wkv.weight"), load.plain(prefix + "wgate.weight"),
          load.floats(prefix + "ape"), load.words(prefix + "norm.weight")};
}

void load_attention(Loader& load, const std::string& prefix, LayerWeights& layer) {
  layer.wq_a = load.fp8(prefix + "wq_a");
  layer.q_norm = load.floats(prefix + "q_norm.weight");
  layer.wq_b = load.fp8(prefix + "wq_b");
  layer.wkv = load.fp8(prefix + "wkv");
  layer.kv_norm = load.floats(prefix + "kv_norm.weight");
  layer.wo_a = load.fp8(prefix + "wo_a");
  layer.wo_a.quantises_input = false;  // the reference runs it on bf16 input
  layer.wo_b = load.fp8(prefix + "wo_b");
  layer.sink = load.floats(prefix + "attn_sink");
  if (layer.ratio == 0) return;
  layer.compressor = load_compressor(load, prefix + "compressor.");
  if (layer.ratio != 4) return;
  layer.indexer_wq_b = load.fp8(prefix + "indexer.wq_b");
  layer.indexer_weights = load.plain(prefix + "indexer.weights_proj.weight");
  layer.indexer_compressor = load_compressor(load, prefix + "indexer.compressor.");
}

// A token's experts index weights: each must exist, and once.
Status check_table(const std::string& name, const std::vector<std::int64_t>& table,
                   const ModelConfig& config) {
  const auto k = static_cast<std::size_t>(config.experts_per_token);
  for (std::size_t first = 0; first < table.size(); first += k) {
    for (std::size_t i = first; i < first + k; ++i) {
      const std::string where = name + "[" + std::to_string(first / k) + ", " +
                                std::to_string(i - first) + "] = " + std::to_string(table[i]);
      if (table[i] < 0 || table[i] >= config.routed_experts) {
        return bad_input(where + ": experts are 0.." + std::to_string(config.routed_experts - 1));
      }
      const auto begin = table.begin() + static_cast<std::ptrdiff_t>(first);
      const auto end = table.begin() + static_cast<std::ptrdiff_t>(i);
      if (std::find(begin, end, table[i]) != end) {
        return bad_input(where + ": a token's experts must differ");
      }
    }
  }
  return {};
}

Status load_experts(Loader& load, const std::string& prefix, const ModelConfig& config,
                    bool is_hash, LayerWeights& layer) {
  layer.gate = load.plain(prefix + "gate.weight");
  if (is_hash) {
    const Tensor& table = load.tensor(prefix + "gate.tid2eid");
    layer.expert_table.resize(static_cast<std::size_t>(table.bytes / 8));
    std::memcpy(layer.expert_table.data(), table.data, static_cast<std::size_t>(table.bytes));
    if (auto status = check_table(table.name, layer.expert_table, config); !status.ok()) {
      return status;
    }
  } else {
    layer.gate_bias = load.floats(prefix + "gate.bias");
  }
  for (int e = 0; e < config.routed_experts; ++e) {
    const std::string expert = prefix + "experts." + std::to_string(e) + ".";
    layer.experts.push_back({load.fp4(expert + "w1", config.expert_format),
                             load.fp4(expert + "w2", config.expert_format),
                             load.fp4(expert + "w3", config.expert_format)});
  }
  layer.shared = {load.fp8(prefix + "shared_experts.w1"), load.fp8(prefix + "shared_experts.w2"),
                  load.fp8(prefix + "shared_experts.w3")};
  return {};
}

// What the engine's kernels need beyond what the checkpoint's own checks demand.
Status check_shapes(const ModelConfig& c) {
  const auto refuse = [](const std::string& field, int value, const std::string& works) {
    return bad_input(field + " = " + std::to_string(value) + ": this engine takes " + works);
  };
  if (c.head_dim != 512) return refuse("head_dim", c.head_dim, "512");
  if (c.rope_dims != 64) return refuse("qk_rope_head_dim", c.rope_dims, "64");
  if (c.index_head_dim != 128) return refuse("index_head_dim", c.index_head_dim, "128");
  if (c.hidden % 128 != 0) return refuse("hidden_size", c.hidden, "multiples of 128");
  if (c.q_lora_rank % cpu::k_gemm_inputs_multiple != 0) {
    return refuse("q_lora_rank", c.q_lora_rank, "multiples of 16");
  }
  if (c.moe_intermediate % cpu::k_gemm_inputs_multiple != 0) {
    return refuse("moe_intermediate_size", c.moe_intermediate, "multiples of 16");
  }
  if (c.heads % c.o_groups != 0) return refuse("o_groups", c.o_groups, "divisors of the heads");
  if (c.o_groups * c.o_lora_rank % cpu::k_gemm_inputs_multiple != 0) {
    return refuse("o_lora_rank", c.o_lora_rank, "o_groups * o_lora_rank in multiples of 16");
  }
  return {};
}

}  // namespace

Expected<ModelWeights> load_weights(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  if (!checkpoint.problems().empty()) {
    std::string text = checkpoint.directory() + " has problems:";
    for (const std::string& problem : checkpoint.problems()) text += "\n  " + problem;
    return bad_input(text);
  }
  if (auto status = check_shapes(config); !status.ok()) return status.error();
  Loader load(checkpoint);
  ModelWeights weights;
  weights.embedding = load.floats("embed.weight");
  weights.head = load.plain("head.weight");
  weights.norm = load.floats("norm.weight");
  weights.head_mixing = load_mixing(load, "hc_head_");
  for (int l = 0; l < config.layers; ++l) {
    const std::string prefix = "layers." + std::to_string(l) + ".";
    LayerWeights layer;
    layer.ratio = config.compress_ratios[static_cast<std::size_t>(l)];
    layer.attention_mixing = load_mixing(load, prefix + "hc_attn_");
    layer.ffn_mixing = load_mixing(load, prefix + "hc_ffn_");
    layer.attention_norm = load.floats(prefix + "attn_norm.weight");
    layer.ffn_norm = load.floats(prefix + "ffn_norm.weight");
    load_attention(load, prefix + "attn.", layer);
    auto status = load_experts(load, prefix + "ffn.", config, config.is_hash_layer(l), layer);
    if (!status.ok()) return status.error();
    weights.layers.push_back(std::move(layer));
  }
  return weights;
}

}  // namespace splitwave::model
