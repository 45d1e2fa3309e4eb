// What the tokenizer refuses and how it says so; literal spans; threads. A vocabulary of bytes and
// two merges is enough for that.
#include "serve/tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "support/temp_dir.h"

namespace splitwave::serve {
namespace {

using Json = nlohmann::json;

Json small_tokenizer() {
  Json vocabulary = Json::object();
  int id = 0;
  for (int c = 0x21; c < 0x144; ++c) {
    if ((c > 0x7E && c < 0xA1) || c == 0xAD) continue;
    const std::string letter = c < 0x80 ? std::string(1, static_cast<char>(c))
                                        : std::string{static_cast<char>(0xC0 | c >> 6),
                                                      static_cast<char>(0x80 | (c & 0x3F))};
    vocabulary[letter] = id++;
  }
  vocabulary["ab"] = 256;
  vocabulary["abc"] = 257;
  return {{"added_tokens",
           {{{"id", 258}, {"content", "<u>"}, {"special", true}},
            {{"id", 259}, {"content", "<u>!"}, {"special", true}}}},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers",
             {{{"type", "Split"},
               {"pattern", {{"Regex", "\\s+|[^\\s]+"}}},
               {"behavior", "Isolated"},
               {"invert", false}},
              {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"a b", "ab c"}}}}};
}

std::string error_of(const Json& json) {
  const auto parsed = Tokenizer::parse(json.dump(), "t.json");
  return parsed ? "none" : parsed.error().message;
}

Json with(const std::string& pointer, const Json& value) {
  Json json = small_tokenizer();
  json[Json::json_pointer(pointer)] = value;
  return json;
}

TEST(Tokenizer, MergesByRankAndKnowsItsTokens) {
  const auto t = Tokenizer::parse(small_tokenizer().dump(), "t.json");
  ASSERT_TRUE(t.ok()) << t.error().message;
  EXPECT_EQ(*t->encode("abcab"), (std::vector<TokenId>{257, 256}));
  EXPECT_EQ(t->bytes(257), "abc");
  EXPECT_EQ(t->bytes(-1), "");
  EXPECT_EQ(t->bytes(100000), "");
  EXPECT_TRUE(t->is_special(258));
  EXPECT_FALSE(t->is_added(257));
  EXPECT_EQ(t->added_token("nothing"), std::nullopt);
}

TEST(Tokenizer, TakesTheLongestAddedTokenOutsideLiteralSpans) {
  const auto t = Tokenizer::parse(small_tokenizer().dump(), "t.json");
  EXPECT_EQ(*t->encode("<u>!<u>"), (std::vector<TokenId>{259, 258}));
  // The "!" belongs to a user: only the shorter token is markup.
  const std::vector<ByteSpan> user = {{3, 4}};
  const auto ids = *t->encode("<u>!<u>", user);
  EXPECT_EQ(ids.front(), 258);
  EXPECT_EQ(ids.back(), 258);
  EXPECT_EQ(t->decode(ids), "<u>!<u>");
  // A user cannot write a role.
  const std::vector<ByteSpan> all = {{0, 7}};
  for (const TokenId id : *t->encode("<u>!<u>", all)) EXPECT_LT(id, 258);
  // Nor complete one that markup began.
  const std::vector<ByteSpan> tail = {{2, 3}};
  for (const TokenId id : *t->encode("<u>", tail)) EXPECT_LT(id, 258);
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8WithTheOffset) {
  const auto t = Tokenizer::parse(small_tokenizer().dump(), "t.json");
  EXPECT_EQ(t->encode("ab\xFF").error().message, "text: not UTF-8 at byte 2");
  EXPECT_TRUE(t->encode("")->empty());
}

TEST(Tokenizer, NamesTheFieldThatItCannotServe) {
  EXPECT_EQ(error_of("x"), "t.json: expected a JSON object");
  EXPECT_EQ(error_of(with("/model/type", "Unigram")),
            "t.json: model.type: \"Unigram\" is not supported; only \"BPE\"");
  EXPECT_EQ(error_of(with("/model/byte_fallback", true)),
            "t.json: model.byte_fallback: true is not supported; only false");
  EXPECT_EQ(error_of(with("/model/merges/1", "ab x")),
            "t.json: model.merges[1]: 'abx' is not in model.vocab");
  EXPECT_EQ(error_of(with("/model/merges/1", 7)),
            "t.json: model.merges[1]: expected \"left right\" or [\"left\", \"right\"]");
  EXPECT_EQ(error_of(with("/model/vocab/ab", -1)),
            "t.json: model.vocab['ab']: -1 is no token id (0 to 1048575)");
  EXPECT_EQ(error_of(with("/model/vocab/ab", 3)),
            "t.json: model.vocab['ab']: id 3 is taken by another token");
  EXPECT_EQ(error_of(with("/added_tokens/1/lstrip", true)),
            "t.json: added_tokens[1].lstrip: true is not supported; only false");
  EXPECT_EQ(error_of(with("/added_tokens/1/content", "")),
            "t.json: added_tokens[1].content: expected a text");
  EXPECT_EQ(error_of(with("/pre_tokenizer/pretokenizers/0/behavior", "Removed")),
            "t.json: pre_tokenizer.pretokenizers[0].behavior: \"Removed\" is not supported; only "
            "\"Isolated\"");
  EXPECT_EQ(error_of(with("/pre_tokenizer/pretokenizers/0/pattern/Regex", "(")),
            "t.json: pre_tokenizer: pattern 0 '(': missing closing parenthesis");
  EXPECT_EQ(error_of(with("/pre_tokenizer/pretokenizers/1/use_regex", true)),
            "t.json: pre_tokenizer.pretokenizers[1].use_regex: is not supported; only false");
  EXPECT_EQ(error_of(with("/normalizer", {{"type", "NFC"}})),
            "t.json: normalizer: only null or an empty sequence is supported");
  Json without_byte = small_tokenizer();
  without_byte["model"]["vocab"].erase("!");
  EXPECT_EQ(error_of(without_byte),
            "t.json: model.vocab: no token for byte 33; a byte-level vocabulary has all 256");
}

TEST(Tokenizer, SaysThatAFileIsMissingOrNoJson) {
  const test::TempDir dir;
  EXPECT_NE(Tokenizer::open(dir.path().string()).error().message.find("tokenizer.json"),
            std::string::npos);
  EXPECT_EQ(Tokenizer::parse("{\"model\": ", "t.json").error().message, "t.json: not JSON");
}

TEST(Tokenizer, GivesTheSameIdsToManyThreads) {
  const auto t = Tokenizer::parse(small_tokenizer().dump(), "t.json");
  const auto text_of = [](int i) { return "abc " + std::to_string(i * 7919) + " <u> abab\n"; };
  std::vector<std::vector<TokenId>> alone;
  for (int i = 0; i < 2000; ++i) alone.push_back(*t->encode(text_of(i)));
  std::vector<int> wrong(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t n = 0; n < wrong.size(); ++n) {
      threads.emplace_back([&, n] {
        for (int i = 0; i < 2000; ++i) {
          if (*t->encode(text_of(i)) != alone[static_cast<std::size_t>(i)]) ++wrong[n];
        }
      });
    }
  }
  EXPECT_EQ(wrong, std::vector<int>(4));
}

}  // namespace
}  // namespace splitwave::serve
