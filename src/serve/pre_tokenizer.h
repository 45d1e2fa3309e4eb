// Cuts text before the merges: a sequence of Split regexes, each on the pieces of the one before.
// Owns PreTokenizer and with it all of PCRE2; called by the tokenizer.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/tokenizer.h"
#include "splitwave/status.h"

namespace splitwave::serve {

class PreTokenizer {
 public:
  // Patterns as tokenizer.json gives them (Oniguruma's dialect; behaviour "Isolated": matches and
  // what lies between them are the pieces). bad_input names the pattern's place and the mistake.
  [[nodiscard]] static Expected<PreTokenizer> compile(const std::vector<std::string>& patterns);

  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // The pieces of text, which must be UTF-8: in order, without gaps, none empty. A pattern sees
  // only its piece: a look-ahead ends at the piece's end. bad_input when a pattern needs more than
  // its limit of work on this text.
  [[nodiscard]] Expected<std::vector<ByteSpan>> split(std::string_view text) const;

 private:
  struct Pattern;
  explicit PreTokenizer(std::vector<std::unique_ptr<Pattern>> patterns);
  std::vector<std::unique_ptr<Pattern>> patterns_;
};

}  // namespace splitwave::serve
