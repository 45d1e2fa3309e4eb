// Finds added tokens in raw text. Owns AddedTokens: the longest match at the leftmost place, tokens
// that tokenizer.json marks "normalized": false before the others, as `tokenizers` splits. Called
// by the tokenizer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/tokenizer.h"

namespace splitwave::serve {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool is_special = false;
  bool is_normalized = false;
};

// A stretch of text: an added token, or plain text (id -1).
struct TextPiece {
  ByteSpan span;
  TokenId id = -1;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(const std::vector<AddedToken>& tokens);

  // Cuts text into pieces, in order and without gaps. No token overlaps a literal span.
  [[nodiscard]] std::vector<TextPiece> split(std::string_view text,
                                             std::span<const ByteSpan> literal) const;

 private:
  struct Node {
    TokenId id = -1;  // of the token that ends here
    std::vector<std::pair<unsigned char, std::int32_t>> children;
  };
  struct Match {
    TokenId id = -1;
    std::size_t bytes = 0;
  };
  using Trie = std::vector<Node>;  // [0] is the root

  static void insert(const AddedToken& token, Trie* trie);
  static Match longest(const Trie& trie, std::string_view text);
  static void split_with(const Trie& trie, std::string_view text, std::span<const ByteSpan> literal,
                         std::vector<TextPiece>* pieces);

  Trie raw_{1};
  Trie normalized_{1};
};

}  // namespace splitwave::serve
