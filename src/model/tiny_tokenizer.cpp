// The small files as the published checkpoint spells them.
#include "model/tiny_tokenizer.h"

#include <utility>

#include "base/files.h"

namespace splitwave::model {
namespace {

constexpr std::string_view k_tokenizer_config = R"({
  "add_bos_token": false,
  "add_eos_token": false,
  "bos_token": "<｜begin▁of▁sentence｜>",
  "clean_up_tokenization_spaces": false,
  "eos_token": "<｜end▁of▁sentence｜>",
  "model_max_length": 65536,
  "pad_token": "<｜▁pad▁｜>",
  "tokenizer_class": "PreTrainedTokenizerFast",
  "unk_token": null
}
)";

constexpr std::string_view k_generation_config = R"({
  "bos_token_id": 0,
  "do_sample": true,
  "eos_token_id": 1,
  "temperature": 1.0,
  "top_p": 1.0
}
)";

}  // namespace

Status write_tiny_tokenizer(const std::string& directory) {
  const std::pair<const char*, std::string_view> files[] = {
      {"/tokenizer.json", tiny_tokenizer_json()},
      {"/tokenizer_config.json", k_tokenizer_config},
      {"/generation_config.json", k_generation_config}};
  for (const auto& [name, text] : files) {
    if (Status s = write_file(directory + name, text); !s.ok()) return s;
  }
  return {};
}

}  // namespace splitwave::model
