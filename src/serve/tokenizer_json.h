// Reads tokenizer.json. Owns TokenizerFile and the checks that this tokenizer can do what the file
// asks for; called by Tokenizer. What it cannot do is refused with the field's name, never ignored.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "serve/added_tokens.h"
#include "serve/bpe.h"
#include "splitwave/status.h"

namespace splitwave::serve {

inline constexpr TokenId k_token_ids_max = 1 << 20;

struct TokenizerFile {
  std::vector<std::string> token_bytes;  // by id; empty: no token
  std::vector<AddedToken> added;
  std::array<TokenId, 256> byte_ids{};
  std::vector<Bpe::Merge> merges;
  std::vector<std::string> split_patterns;
};

[[nodiscard]] Expected<TokenizerFile> read_tokenizer_json(std::string_view json,
                                                          const std::string& name);

}  // namespace splitwave::serve
