// Fuzzes what a checkpoint directory holds as text: a safetensors header over a data block of a
// fixed size, and config.json in its three dialects. Tensors handed out lie inside the block; an
// accepted configuration is written back to an equal one.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "model/config.h"
#include "model/safetensors.h"

namespace {

using namespace splitwave;
using namespace splitwave::model;

constexpr std::int64_t k_data_bytes = 4096;

void check_header(std::string_view text) {
  static const std::vector<std::uint8_t> block(k_data_bytes);
  const auto tensors = parse_safetensors_header(text, block.data(), k_data_bytes, "f");
  if (!tensors.ok()) return;
  for (const Tensor& t : *tensors) {
    const std::int64_t begin = t.data - block.data();
    SPLITWAVE_CHECK(begin >= 0 && t.bytes >= 0 && begin + t.bytes <= k_data_bytes,
                    "a tensor outside the data");
    std::int64_t elements = 1;
    for (const std::int64_t extent : t.shape) elements *= extent;
    SPLITWAVE_CHECK(elements * size_bytes(t.dtype) == t.bytes, "bytes do not match the shape");
  }
}

void check_config(const std::string& text) {
  const auto config = parse_model_config(text, "config.json");
  if (!config.ok()) {
    SPLITWAVE_CHECK(config.error().message.find("config.json") != std::string::npos,
                    "an error without its file");
    return;
  }
  const std::string written = to_config_json(*config);
  const auto again = parse_model_config(written, "config.json");
  SPLITWAVE_CHECK(again.ok() && to_config_json(*again) == written, "a round trip");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_header(text);
  check_config(text);
  return 0;
}
