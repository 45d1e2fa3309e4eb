// A checkpoint directory: config.json and its safetensors shards. Owns Checkpoint: everything is
// checked against tensor_specs before a tensor is used, and all problems are listed together.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "model/config.h"
#include "model/safetensors.h"

namespace splitwave::model {

inline constexpr int k_shards_max = 4096;

class Checkpoint {
 public:
  // Opens config.json and every *.safetensors file of the directory. An unreadable directory or a
  // malformed file is an error; missing or misshapen tensors are problems().
  [[nodiscard]] static Expected<Checkpoint> open(const std::string& directory);

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] const std::string& directory() const { return directory_; }
  // A line each: a tensor that is missing, doubled, of the wrong dtype or shape.
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }
  // Every tensor found, draft layers included, in file order.
  [[nodiscard]] const std::vector<const Tensor*>& tensors() const { return tensors_; }
  [[nodiscard]] std::int64_t bytes() const;
  // Null when absent.
  [[nodiscard]] const Tensor* find(const std::string& name) const;

 private:
  void check_against_specs();

  std::string directory_;
  ModelConfig config_;
  std::vector<SafetensorsFile> shards_;
  std::vector<const Tensor*> tensors_;
  std::unordered_map<std::string, const Tensor*> by_name_;
  std::vector<std::string> problems_;
};

}  // namespace splitwave::model
