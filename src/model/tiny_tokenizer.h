// The tokenizer of the tiny model: a 4,096-id byte-level BPE in DeepSeek-V4's dialect of
// tokenizer.json, embedded in the library (tiny_tokenizer.json; make_tiny_tokenizer.py trained it).
// Owns the files that a published checkpoint has beside its tensors; called by make_tiny and by
// tests of the tokenizer. It tokenises nothing (serve/tokenizer.h).
#pragma once

#include <string>
#include <string_view>

#include "splitwave/status.h"

namespace splitwave::model {

inline constexpr int k_tiny_vocabulary = 4096;

// The text of tokenizer.json.
[[nodiscard]] std::string_view tiny_tokenizer_json();

// Writes tokenizer.json, tokenizer_config.json and generation_config.json into a directory that
// exists, each atomically.
[[nodiscard]] Status write_tiny_tokenizer(const std::string& directory);

}  // namespace splitwave::model
