// Any bytes as a tokenizer.json: refused with a message, or a tokenizer whose encoding of any text
// decodes to that text. Run by scripts/fuzz.sh.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "serve/tokenizer.h"
#include "serve/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = splitwave::serve::Tokenizer::parse(text, "fuzz");
  if (!tokenizer) {
    if (tokenizer.error().message.empty()) std::abort();
    return 0;
  }
  const std::string_view sample = text.substr(0, std::min<std::size_t>(size, 64));
  const std::string_view valid = sample.substr(0, splitwave::serve::utf8_valid_prefix(sample));
  for (const std::string_view probe : {valid, std::string_view("abc <u>! 12  \n\xC3\xA9")}) {
    const auto ids = tokenizer->encode(probe);
    // A file's own regex may need more work than a match is allowed.
    if (ids.ok() && tokenizer->decode(*ids) != probe) std::abort();
  }
  return 0;
}
