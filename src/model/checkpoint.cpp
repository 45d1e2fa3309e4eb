// Opens a checkpoint directory and checks it whole.
#include "model/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "model/tensor_spec.h"

namespace splitwave::model {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t k_config_bytes_max = 1 << 20;

Expected<std::string> read_small_file(const fs::path& path) {
  std::error_code failure;
  const std::uintmax_t bytes = fs::file_size(path, failure);
  if (failure) return environment_error(path.string() + ": " + failure.message());
  if (bytes > k_config_bytes_max) {
    return bad_input(path.string() + ": " + std::to_string(bytes) + " bytes, at most " +
                     std::to_string(k_config_bytes_max));
  }
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return environment_error(path.string() + ": cannot read");
  return text.str();
}

}  // namespace

Expected<Checkpoint> Checkpoint::open(const std::string& directory) {
  std::error_code failure;
  if (!fs::is_directory(directory, failure)) {
    return environment_error(directory +
                             ": not a directory; need one with config.json and "
                             "*.safetensors (splitwave model make-tiny DIR writes one)");
  }
  const fs::path config_path = fs::path(directory) / "config.json";
  auto text = read_small_file(config_path);
  if (!text) return text.error();
  auto config = parse_model_config(*text, config_path.string());
  if (!config) return config.error();

  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(directory, failure)) {
    if (entry.path().extension() == ".safetensors") paths.push_back(entry.path().string());
  }
  if (failure) return environment_error(directory + ": " + failure.message());
  if (paths.empty()) return environment_error(directory + ": no *.safetensors file");
  if (paths.size() > k_shards_max) {
    return bad_input(directory + ": " + std::to_string(paths.size()) + " shards, at most " +
                     std::to_string(k_shards_max));
  }
  std::sort(paths.begin(), paths.end());

  Checkpoint checkpoint;
  checkpoint.directory_ = directory;
  checkpoint.config_ = *config;
  for (const std::string& path : paths) {
    auto shard = SafetensorsFile::open(path);
    if (!shard) return shard.error();
    checkpoint.shards_.push_back(std::move(*shard));
  }
  for (const SafetensorsFile& shard : checkpoint.shards_) {
    for (const Tensor& tensor : shard.tensors()) {
      checkpoint.tensors_.push_back(&tensor);
      if (!checkpoint.by_name_.emplace(tensor.name, &tensor).second) {
        checkpoint.problems_.push_back(tensor.name + ": in more than one shard");
      }
    }
  }
  checkpoint.check_against_specs();
  return checkpoint;
}

void Checkpoint::check_against_specs() {
  for (const TensorSpec& spec : tensor_specs(config_)) {
    const Tensor* tensor = find(spec.name);
    if (tensor == nullptr) {
      problems_.push_back(spec.name + ": missing, need " + describe(spec.dtype, spec.shape));
    } else if (tensor->dtype != spec.dtype || tensor->shape != spec.shape) {
      problems_.push_back(spec.name + ": is " + describe(tensor->dtype, tensor->shape) + ", need " +
                          describe(spec.dtype, spec.shape));
    }
  }
}

std::int64_t Checkpoint::bytes() const {
  std::int64_t sum = 0;
  for (const Tensor* tensor : tensors_) sum += tensor->bytes;
  return sum;
}

const Tensor* Checkpoint::find(const std::string& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

}  // namespace splitwave::model
