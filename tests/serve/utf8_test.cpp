// UTF-8 validity and the stream decoder, against the table of well-formed sequences.
#include "serve/utf8.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace splitwave::serve {
namespace {

std::string decode(const std::string& bytes, std::size_t step) {
  StreamDecoder decoder;
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    decoder.push(bytes.substr(at, step), &text);
    EXPECT_EQ(utf8_valid_prefix(text), text.size());
    EXPECT_LE(decoder.pending_bytes(), 3U);
  }
  decoder.finish(&text);
  return text;
}

TEST(Utf8, AcceptsEveryCodePointAndNothingElse) {
  EXPECT_EQ(utf8_valid_prefix("a\xC3\xA9\xE4\xB8\x80\xF0\x9F\x98\x80"), 10U);
  // Overlong, surrogate, past U+10FFFF, a lone continuation, cut short.
  for (const char* bad : {"\xC0\x80", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80",
                          "\xF0\x8F\xBF\xBF", "\xE4\xB8", "\xF8\x88\x80\x80\x80"}) {
    EXPECT_EQ(utf8_valid_prefix(std::string("ok") + bad), 2U);
  }
}

// Values of Python 3.11: bytes(...).decode("utf-8", errors="replace").
TEST(StreamDecoder, ReplacesWrongBytesAsPythonDoes) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(decode("a\x80"
                   "b",
                   9),
            "a" + r + "b");
  EXPECT_EQ(decode("\xF0\x9F\x98"
                   "b",
                   9),
            r + "b");
  EXPECT_EQ(decode("\xED\xA0\x80", 9), r + r + r);
  EXPECT_EQ(decode("\xE4\xB8", 9), r);
  EXPECT_EQ(decode("\xF0\x9F\x98\x80", 9), "\xF0\x9F\x98\x80");
}

TEST(StreamDecoder, GivesTheSameTextHoweverTheBytesAreCut) {
  Rng rng(3);
  const std::string lively =
      "\x80\xBF\xC2\xE0\xA0\xED\xF0\x90\xF4\xE4\xB8\x80"
      "a";
  for (int round = 0; round < 5000; ++round) {
    std::string bytes;
    for (auto n = rng.below(12); n > 0; --n) {
      bytes += lively[rng.below(static_cast<std::uint32_t>(lively.size()))];
    }
    const std::string whole = decode(bytes, 64);
    for (const std::size_t step : {1U, 2U, 3U}) ASSERT_EQ(decode(bytes, step), whole);
  }
}

}  // namespace
}  // namespace splitwave::serve
