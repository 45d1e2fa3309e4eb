// Text to token ids and back, by a checkpoint's tokenizer.json (byte-level BPE as DeepSeek-V4
// publishes it: Split regexes, then merges by rank; added tokens matched on the raw text). Owns
// Tokenizer; knows nothing of roles or prompts (chat_encoding.h). Called by the server and by
// tests. A Tokenizer is immutable to its callers and safe to use from many threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "splitwave/status.h"

namespace splitwave::serve {

using TokenId = std::int32_t;

inline constexpr std::int64_t k_tokenizer_file_bytes_max = std::int64_t{64} << 20;

// Bytes [begin, end) of a text.
struct ByteSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const ByteSpan&) const = default;
};

class Tokenizer {
 public:
  // Reads DIRECTORY/tokenizer.json. bad_input names the field, the value and what would work.
  [[nodiscard]] static Expected<Tokenizer> open(const std::string& directory);
  // The same on the text of a tokenizer.json; `name` stands for the file in messages.
  [[nodiscard]] static Expected<Tokenizer> parse(std::string_view json, const std::string& name);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // The ids of a text; nothing is put before or after it (V4 writes its BOS in the prompt). An
  // added token ("<｜User｜>") is matched wherever it stands, unless it overlaps a literal span:
  // the text of users and tools cannot forge markup. Spans ascend and do not overlap. bad_input
  // when text is not UTF-8, with the offset of the first wrong byte.
  [[nodiscard]] Expected<std::vector<TokenId>> encode(std::string_view text,
                                                      std::span<const ByteSpan> literal = {}) const;

  // Ids are 0 .. vocab_size() - 1; some may have no token.
  [[nodiscard]] std::int32_t vocab_size() const;
  // The bytes that a token stands for, valid as long as the tokenizer; empty for an id without a
  // token, negative ids included. They may be a part of a code point: StreamDecoder (utf8.h) joins.
  [[nodiscard]] std::string_view bytes(TokenId id) const;
  [[nodiscard]] std::string decode(std::span<const TokenId> ids) const;

  // The id of an added token by its text ("<｜end▁of▁sentence｜>", "</think>").
  [[nodiscard]] std::optional<TokenId> added_token(std::string_view content) const;
  [[nodiscard]] bool is_added(TokenId id) const;
  // An added token marked "special": decoders leave it out of the text for users.
  [[nodiscard]] bool is_special(TokenId id) const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace splitwave::serve
