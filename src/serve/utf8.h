// UTF-8 as the server needs it: where text stops being valid, and text out of a stream of token
// bytes. Owns utf8_valid_prefix and StreamDecoder; called by the tokenizer, the HTTP layer and the
// output parser. It normalises nothing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace splitwave::serve {

// How many leading bytes are whole, valid code points (no surrogates, none above U+10FFFF, no
// overlong form); text.size() when all are.
[[nodiscard]] std::size_t utf8_valid_prefix(std::string_view text);

// Joins token bytes into text: gives out only complete code points, keeps at most three bytes
// back. Bytes that no continuation can make valid become U+FFFD, one for each maximal subpart
// (Unicode 15, 3.9, table 3-8), as Python's errors="replace" does. The text given out over all
// calls does not depend on where the bytes were cut.
class StreamDecoder {
 public:
  // Appends what is complete to *text.
  void push(std::string_view bytes, std::string* text);
  // The stream ends: what is left is one U+FFFD.
  void finish(std::string* text);

  [[nodiscard]] std::size_t pending_bytes() const { return pending_.size(); }

 private:
  std::string pending_;
};

}  // namespace splitwave::serve
