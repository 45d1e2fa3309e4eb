// Draws the tiny model's tensors. No libm call decides a value, so the bytes are the same
// everywhere.
#include "model/make_tiny.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "formats/bf16.h"
#include "formats/e8m0.h"
#include "formats/fp4.h"
#include "formats/fp8.h"
#include "model/safetensors.h"
#include "model/tensor_spec.h"
#include "model/tiny_tokenizer.h"

namespace splitwave::model {
namespace {

// SplitMix64: a stream for each tensor, seeded by the tensor's name.
class TensorRandom {
 public:
  TensorRandom(std::uint64_t seed, const std::string& name) : state_(seed) {
    for (const char c : name) state_ = next() ^ static_cast<unsigned char>(c);
  }
  std::uint64_t next() {
    const std::uint64_t drawn = splitmix64(state_);
    state_ += k_splitmix64_step;
    return drawn;
  }
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24F; }
  // Mean 0, variance 1, |x| <= 6: the sum of twelve uniforms, exact in float.
  float normal() {
    float sum = -6.0F;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  std::uint64_t state_;
};

std::int64_t element_count(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  return n;
}

// A drawn matrix before quantisation: variance 1 / columns, so that products keep their range.
std::vector<float> draw_matrix(std::uint64_t seed, const std::string& name, std::int64_t rows,
                               std::int64_t columns) {
  TensorRandom random(seed, name);
  const float std_dev = 1.0F / std::sqrt(static_cast<float>(columns));  // sqrt is exact by IEEE 754
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (float& v : values) v = random.normal() * std_dev;
  return values;
}

struct Bytes {
  std::vector<std::uint8_t> data;
  template <class T>
  static Bytes of(const std::vector<T>& values) {
    Bytes bytes;
    bytes.data.resize(values.size() * sizeof(T));
    std::memcpy(bytes.data.data(), values.data(), bytes.data.size());
    return bytes;
  }
};

// The least power of two s with amax / s <= code_max, as an e8m0 code.
std::uint8_t scale_code(float amax, float code_max) {
  return encode_e8m0_ceil(std::max(amax, 1e-4F) / code_max);
}

// Codes and scales of one matrix with one e8m0 scale per row_group x column_group block.
struct BlockScaled {
  std::vector<std::uint8_t> codes;  // one a value
  std::vector<std::uint8_t> scales;
};

template <class Encode>
BlockScaled quantise_blocks(const std::vector<float>& values, std::int64_t rows,
                            std::int64_t columns, std::int64_t row_group, std::int64_t column_group,
                            float code_max, Encode encode) {
  BlockScaled out;
  out.codes.resize(values.size());
  for (std::int64_t r0 = 0; r0 < rows; r0 += row_group) {
    for (std::int64_t c0 = 0; c0 < columns; c0 += column_group) {
      const std::int64_t r1 = std::min(rows, r0 + row_group);
      const std::int64_t c1 = std::min(columns, c0 + column_group);
      float amax = 0;
      for (std::int64_t r = r0; r < r1; ++r) {
        for (std::int64_t c = c0; c < c1; ++c) {
          amax = std::max(amax, std::fabs(values[static_cast<std::size_t>(r * columns + c)]));
        }
      }
      const std::uint8_t scale = scale_code(amax, code_max);
      const float inverse = 1.0F / decode_e8m0(scale);
      for (std::int64_t r = r0; r < r1; ++r) {
        for (std::int64_t c = c0; c < c1; ++c) {
          const auto i = static_cast<std::size_t>(r * columns + c);
          out.codes[i] = encode(values[i] * inverse);
        }
      }
      out.scales.push_back(scale);
    }
  }
  return out;
}

std::vector<std::uint8_t> pack_nibbles(const std::vector<std::uint8_t>& codes) {
  std::vector<std::uint8_t> packed(codes.size() / 2);
  for (std::size_t i = 0; i < packed.size(); ++i) {
    packed[i] = pack_e2m1(codes[2 * i], codes[2 * i + 1]);
  }
  return packed;
}

// Draws tensors spec by spec; a weight's scales are kept for the specs that follow it.
class TinyWriter {
 public:
  explicit TinyWriter(std::uint64_t seed) : seed_(seed) {}

  Bytes draw(const TensorSpec& spec) {
    switch (spec.role) {
      case TensorRole::weight:
        return draw_weight(spec);
      case TensorRole::weight_scale:
        return take_scale(spec);
      case TensorRole::embedding:
        return draw_bf16(spec, 0.0F, 1.0F);
      case TensorRole::norm:
        return draw_bf16(spec, 1.0F, 0.05F);
      case TensorRole::mixing:
        return draw_mixing(spec);
      case TensorRole::bias:
        return draw_f32(spec, 0.0F, 0.1F);
      case TensorRole::expert_table:
        return draw_table(spec);
    }
    SPLITWAVE_CHECK(false, "unknown tensor role");
  }

  int experts = 0;  // expert ids that tid2eid may hold

 private:
  Bytes draw_weight(const TensorSpec& spec) {
    const std::int64_t rows = spec.shape[0];
    if (spec.dtype == DType::bf16) {
      const auto values = draw_matrix(seed_, spec.name, rows, spec.shape[1]);
      std::vector<std::uint16_t> codes(values.size());
      std::transform(values.begin(), values.end(), codes.begin(), float_to_bf16);
      return Bytes::of(codes);
    }
    if (spec.dtype == DType::f8_e4m3) {
      const auto values = draw_matrix(seed_, spec.name, rows, spec.shape[1]);
      auto blocks = quantise_blocks(values, rows, spec.shape[1], 128, 128, k_e4m3_max, encode_e4m3);
      scales_ = std::move(blocks.scales);
      return Bytes::of(blocks.codes);
    }
    const std::int64_t columns = 2 * spec.shape[1];
    const auto values = draw_matrix(seed_, spec.name, rows, columns);
    if (spec.dtype == DType::i8) {
      auto blocks = quantise_blocks(values, rows, columns, 1, 32, k_e2m1_max, encode_e2m1);
      scales_ = std::move(blocks.scales);
      return Bytes::of(pack_nibbles(blocks.codes));
    }
    return draw_nvfp4(values, columns);
  }

  // NVFP4: e4m3 scale per 16 along K, one fp32 scale_2 a tensor. scale_2 is the power of two that
  // holds every drawn value (|x| <= 6 standard deviations), so w1 and w3 of an expert share it.
  Bytes draw_nvfp4(const std::vector<float>& values, std::int64_t columns) {
    const float amax = 6.0F / std::sqrt(static_cast<float>(columns));
    scale_2_ = decode_e8m0(scale_code(amax / k_e2m1_max, k_e4m3_max));
    std::vector<std::uint8_t> codes(values.size());
    scales_.clear();
    for (std::size_t i = 0; i < values.size(); i += 16) {
      float group_max = 0;
      for (std::size_t j = i; j < i + 16; ++j)
        group_max = std::max(group_max, std::fabs(values[j]));
      const std::uint8_t scale = encode_e4m3(group_max / k_e2m1_max / scale_2_);
      const float step = decode_e4m3(scale) * scale_2_;
      for (std::size_t j = i; j < i + 16; ++j) {
        codes[j] = encode_e2m1(step > 0 ? values[j] / step : 0.0F);
      }
      scales_.push_back(scale);
    }
    return Bytes::of(pack_nibbles(codes));
  }

  Bytes take_scale(const TensorSpec& spec) {
    if (spec.dtype != DType::f32) return Bytes::of(scales_);
    const bool is_input_scale = spec.name.ends_with("input_scale");
    return Bytes::of(std::vector<float>{is_input_scale ? 0x1p-6F : scale_2_});
  }

  Bytes draw_bf16(const TensorSpec& spec, float mean, float std_dev) {
    TensorRandom random(seed_, spec.name);
    std::vector<std::uint16_t> codes(static_cast<std::size_t>(element_count(spec.shape)));
    for (std::uint16_t& code : codes) code = float_to_bf16(mean + std_dev * random.normal());
    return Bytes::of(codes);
  }

  Bytes draw_f32(const TensorSpec& spec, float mean, float std_dev) {
    TensorRandom random(seed_, spec.name);
    std::vector<float> values(static_cast<std::size_t>(element_count(spec.shape)));
    for (float& value : values) value = mean + std_dev * random.normal();
    return Bytes::of(values);
  }

  // mHC: fn like a weight, base small, scale near 1.
  Bytes draw_mixing(const TensorSpec& spec) {
    if (spec.name.ends_with("fn")) {
      return Bytes::of(draw_matrix(seed_, spec.name, spec.shape[0], spec.shape[1]));
    }
    return spec.name.ends_with("scale") ? draw_f32(spec, 1.0F, 0.05F) : draw_f32(spec, 0.0F, 0.3F);
  }

  // tid2eid: distinct experts a token.
  Bytes draw_table(const TensorSpec& spec) {
    TensorRandom random(seed_, spec.name);
    const std::int64_t per_token = spec.shape[1];
    std::vector<std::int64_t> table;
    for (std::int64_t token = 0; token < spec.shape[0]; ++token) {
      const std::size_t first = table.size();
      while (static_cast<std::int64_t>(table.size() - first) < per_token) {
        const auto expert =
            static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(experts));
        if (std::find(table.begin() + static_cast<std::ptrdiff_t>(first), table.end(), expert) ==
            table.end()) {
          table.push_back(expert);
        }
      }
    }
    return Bytes::of(table);
  }

  std::uint64_t seed_;
  std::vector<std::uint8_t> scales_;
  float scale_2_ = 1;
};

Status write_text(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".partial";
  {
    std::ofstream out(temporary, std::ios::binary);
    out << text;
    out.flush();
    if (!out) {
      std::remove(temporary.c_str());
      return environment_error(path + ": cannot write");
    }
  }
  std::error_code failure;
  std::filesystem::rename(temporary, path, failure);
  if (failure) return environment_error(path + ": " + failure.message());
  return {};
}

}  // namespace

ModelConfig tiny_config(const TinyOptions& options) {
  ModelConfig c;
  c.compress_ratios = {0, 0, 4, 128, 4, 128, 4};
  c.layers = static_cast<int>(c.compress_ratios.size());
  c.hidden = 128;
  c.heads = 4;
  c.q_lora_rank = 128;
  c.o_lora_rank = 64;
  c.o_groups = 2;
  c.index_heads = 4;
  c.index_topk = 64;
  c.max_positions = 65536;
  c.routed_experts = 16;
  c.experts_per_token = 4;
  c.moe_intermediate = 128;
  c.hash_layers = 3;
  c.routed_scaling_factor = 1.5;
  c.vocab_size = options.vocab_size;
  c.expert_format = options.expert_format;
  return c;
}

Status make_tiny(const std::string& directory, const TinyOptions& options) {
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure) return environment_error(directory + ": " + failure.message());
  const ModelConfig config = tiny_config(options);
  TinyWriter writer(options.seed);
  writer.experts = config.routed_experts;
  const auto specs = tensor_specs(config);
  std::vector<Bytes> bytes;
  std::vector<TensorToWrite> tensors;
  bytes.reserve(specs.size());
  for (const TensorSpec& spec : specs) {
    bytes.push_back(writer.draw(spec));
    SPLITWAVE_CHECK(static_cast<std::int64_t>(bytes.back().data.size()) ==
                        element_count(spec.shape) * size_bytes(spec.dtype),
                    spec.name + " was drawn with the wrong size");
    tensors.push_back({spec.name, spec.dtype, spec.shape, bytes.back().data.data()});
  }
  if (auto status = write_safetensors(directory + "/model.safetensors", tensors); !status.ok()) {
    return status;
  }
  if (options.vocab_size >= k_tiny_vocabulary) {
    if (auto status = write_tiny_tokenizer(directory); !status.ok()) return status;
  }
  return write_text(directory + "/config.json", to_config_json(config));
}

}  // namespace splitwave::model
