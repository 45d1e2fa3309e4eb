// Byte-pair merges by rank. Owns Bpe: bytes of one piece to ids, as `tokenizers` does it: the pair
// of the lowest rank first, the leftmost of equals. Called by the tokenizer; knows no regex, no
// added token and no file.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "serve/tokenizer.h"

namespace splitwave::serve {

class Bpe {
 public:
  struct Merge {
    TokenId left = 0;
    TokenId right = 0;
    TokenId result = 0;
  };

  Bpe() = default;
  // byte_ids: the token of each byte. A merge's rank is its place in the list; of equal pairs the
  // last counts, as in a map that is filled in order.
  Bpe(const std::array<TokenId, 256>& byte_ids, const std::vector<Merge>& merges);

  // Appends the ids of piece. O(n log n) in its length.
  void encode(std::string_view piece, std::vector<TokenId>* ids) const;

 private:
  struct Slot {
    std::uint64_t pair = ~std::uint64_t{0};  // left id, right id; all ones: empty
    std::int32_t rank = 0;
    TokenId result = 0;
  };
  [[nodiscard]] const Slot* find(TokenId left, TokenId right) const;

  std::array<TokenId, 256> byte_ids_{};
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
};

}  // namespace splitwave::serve
