// The table of well-formed byte sequences (Unicode 15, table 3-7), as code.
#include "serve/utf8.h"

namespace splitwave::serve {
namespace {

constexpr std::string_view k_replacement = "\xEF\xBF\xBD";  // U+FFFD

enum class Form { whole, cut, wrong };  // cut: a valid beginning, the text ends too early

struct CodePoint {
  Form form = Form::wrong;
  std::size_t bytes = 1;  // whole: its length; cut and wrong: the maximal subpart
};

// The code point that begins at text[0]; text is not empty.
CodePoint read_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {Form::whole, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Form::wrong, 1};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and values past U+10FFFF.
  unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Form::cut, i};
    if (byte(i) < low || byte(i) > high) return {Form::wrong, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Form::whole, length};
}

}  // namespace

std::size_t utf8_valid_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = read_code_point(text.substr(at));
    if (point.form != Form::whole) break;
    at += point.bytes;
  }
  return at;
}

void StreamDecoder::push(std::string_view bytes, std::string* text) {
  std::string joined;
  if (!pending_.empty()) {
    joined = pending_;
    joined += bytes;
    bytes = joined;
  }
  std::size_t at = 0;
  Form form = Form::whole;
  while (at < bytes.size()) {
    const CodePoint point = read_code_point(bytes.substr(at));
    form = point.form;
    if (form == Form::cut) break;
    text->append(form == Form::whole ? bytes.substr(at, point.bytes) : k_replacement);
    at += point.bytes;
  }
  pending_ = std::string(bytes.substr(at));
}

void StreamDecoder::finish(std::string* text) {
  if (!pending_.empty()) text->append(k_replacement);
  pending_.clear();
}

}  // namespace splitwave::serve
