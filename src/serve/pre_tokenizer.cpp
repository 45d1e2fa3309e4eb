// PCRE2 in UTF mode with Unicode classes, compiled just in time where the machine allows it.
#include "serve/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

namespace splitwave::serve {
namespace {

// White_Space of Unicode, which is what \s means to Oniguruma. PCRE2's own \s has U+180E too.
constexpr std::string_view k_white_space =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// Steps of one match. The patterns of V4 need a few for each byte that they look at.
constexpr std::uint32_t k_match_limit = 200'000'000;
constexpr std::size_t k_jit_stack_bytes_min = std::size_t{32} << 10;
constexpr std::size_t k_jit_stack_bytes_max = std::size_t{1} << 20;

// \s and \S spelt out; the rest of V4's patterns means the same to both engines.
std::string to_pcre2(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's') {
        out += in_class ? std::string(k_white_space) : "[" + std::string(k_white_space) + "]";
      } else if (escaped == 'S' && !in_class) {
        out += "[^" + std::string(k_white_space) + "]";
      } else {
        out += c;
        out += escaped;
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using Code = std::unique_ptr<pcre2_code, Freer<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freer<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Freer<pcre2_jit_stack_free>>;

// What one thread needs to match; made for each call of split.
struct Scratch {
  MatchData data{pcre2_match_data_create(1, nullptr)};
  MatchContext context{pcre2_match_context_create(nullptr)};
  JitStack stack{pcre2_jit_stack_create(k_jit_stack_bytes_min, k_jit_stack_bytes_max, nullptr)};

  Scratch() {
    pcre2_set_match_limit(context.get(), k_match_limit);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

// How many bytes the code point at text[0] takes; text is valid UTF-8.
std::size_t code_point_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

}  // namespace

struct PreTokenizer::Pattern {
  Code code;

  // Appends the pieces of text, which begins at byte `offset` of the whole.
  Status split(std::string_view text, std::size_t offset, Scratch* scratch,
               std::vector<ByteSpan>* pieces) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    std::size_t plain = 0;  // where the stretch between matches begins
    std::size_t at = 0;
    while (at < text.size()) {
      int found = pcre2_match(code.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK,
                              scratch->data.get(), scratch->context.get());
      if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
        found = pcre2_match(code.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                            scratch->data.get(), scratch->context.get());
      }
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0) return bad_input("PCRE2 error " + std::to_string(found));
      const PCRE2_SIZE* match = pcre2_get_ovector_pointer(scratch->data.get());
      if (match[1] == match[0]) {  // an empty match cuts nothing
        at = match[1];
        if (at < text.size()) at += code_point_bytes(text.substr(at));
        continue;
      }
      if (plain < match[0]) pieces->push_back({offset + plain, offset + match[0]});
      pieces->push_back({offset + match[0], offset + match[1]});
      plain = at = match[1];
    }
    if (plain < text.size()) pieces->push_back({offset + plain, offset + text.size()});
    return {};
  }
};

PreTokenizer::PreTokenizer(std::vector<std::unique_ptr<Pattern>> patterns)
    : patterns_(std::move(patterns)) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Expected<PreTokenizer> PreTokenizer::compile(const std::vector<std::string>& patterns) {
  std::vector<std::unique_ptr<Pattern>> compiled;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const std::string pattern = to_pcre2(patterns[i]);
    int error = 0;
    PCRE2_SIZE at = 0;
    auto made = std::make_unique<Pattern>();
    made->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr));
    if (made->code == nullptr) {
      PCRE2_UCHAR message[256];
      pcre2_get_error_message(error, message, sizeof message);
      return bad_input("pattern " + std::to_string(i) + " '" + patterns[i] +
                       "': " + reinterpret_cast<const char*>(message));
    }
    pcre2_jit_compile(made->code.get(), PCRE2_JIT_COMPLETE);  // without it matches are only slower
    compiled.push_back(std::move(made));
  }
  return PreTokenizer(std::move(compiled));
}

Expected<std::vector<ByteSpan>> PreTokenizer::split(std::string_view text) const {
  std::vector<ByteSpan> pieces;
  if (text.empty()) return pieces;
  Scratch scratch;
  pieces.push_back({0, text.size()});
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    std::vector<ByteSpan> cut;
    cut.reserve(2 * pieces.size());
    for (const ByteSpan& piece : pieces) {
      const auto part = text.substr(piece.begin, piece.end - piece.begin);
      if (Status s = patterns_[i]->split(part, piece.begin, &scratch, &cut); !s.ok()) {
        return bad_input("text: pre-tokenizer pattern " + std::to_string(i) + " gives up on " +
                         std::to_string(part.size()) + " bytes (" + s.error().message + ")");
      }
    }
    pieces = std::move(cut);
  }
  return pieces;
}

}  // namespace splitwave::serve
