// The tokenizer on DeepSeek-V4's published vocabulary: 10,000 strings of mixed scripts, every
// assigned code point in eight surroundings, and readable samples, against ids of two outside
// implementations (tests/data/deepseek_v4/make_tokenizer_vectors.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "serve/tokenizer.h"

namespace splitwave::serve {
namespace {

using Json = nlohmann::json;

constexpr TokenId k_first_byte_id = 3;  // after BOS, EOS and padding
constexpr TokenId k_first_merge_id = 259;
constexpr int k_strings_per_hash = 10;
constexpr std::uint64_t k_fnv_offset = 0xCBF29CE484222325ULL;

std::string data_file(const std::string& name) {
  return *read_file(std::string(SPLITWAVE_SOURCE_DIR) + "/tests/data/deepseek_v4/" + name, 4 << 20);
}

void append_utf8(char32_t c, std::string* out) {
  const auto byte = [&](char32_t value) { out->push_back(static_cast<char>(value)); };
  if (c < 0x80) return byte(c);
  if (c < 0x800) {
    byte(0xC0 | c >> 6);
  } else if (c < 0x10000) {
    byte(0xE0 | c >> 12);
    byte(0x80 | (c >> 6 & 0x3F));
  } else {
    byte(0xF0 | c >> 18);
    byte(0x80 | (c >> 12 & 0x3F));
    byte(0x80 | (c >> 6 & 0x3F));
  }
  byte(0x80 | (c & 0x3F));
}

// The byte alphabet of byte-level BPE in the order of its characters, spelt in UTF-8.
std::vector<std::string> alphabet() {
  std::vector<std::string> out;
  const auto add = [&](char32_t c) {
    out.emplace_back();
    append_utf8(c, &out.back());
  };
  for (char32_t c = 0x21; c <= 0x7E; ++c) add(c);
  for (char32_t c = 0xA1; c <= 0xFF; ++c) {
    if (c != 0xAD) add(c);
  }
  for (char32_t c = 0x100; out.size() < 256; ++c) add(c);
  return out;
}

// tokenizer.json as published, from its merges (two 24-bit ids each) and the list of added tokens.
std::string rebuild_tokenizer_json(const Json& vectors) {
  const std::string packed = data_file("tokenizer_merges.bin");
  const auto id_at = [&](std::size_t i) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(packed.data()) + 3 * i;
    return static_cast<std::size_t>(bytes[0] | bytes[1] << 8 | bytes[2] << 16);
  };
  Json added = Json::array();
  for (const Json& token : vectors["added_tokens"]) {
    added.push_back(
        {{"id", token[0]}, {"content", token[1]}, {"special", token[2]}, {"normalized", token[3]}});
  }
  for (const Json& run : vectors["placeholders"]) {
    for (int i = 0; i < run[2]; ++i) {
      added.push_back(
          {{"id", run[0].get<int>() + i},
           {"content", "<｜place▁holder▁no▁" + std::to_string(run[1].get<int>() + i) + "｜>"},
           {"special", true},
           {"normalized", false}});
    }
  }
  std::vector<std::string> tokens(k_first_byte_id);
  for (const std::string& letter : alphabet()) tokens.push_back(letter);
  Json merges = Json::array();
  for (std::size_t i = 0; 6 * i < packed.size(); ++i) {
    const std::string& left = tokens[id_at(2 * i)];
    const std::string& right = tokens[id_at(2 * i + 1)];
    merges.push_back(left + " " + right);
    tokens.push_back(left + right);
  }
  Json vocabulary = Json::object();
  for (std::size_t id = k_first_byte_id; id < tokens.size(); ++id) vocabulary[tokens[id]] = id;
  return Json{{"added_tokens", added},
              {"pre_tokenizer", vectors["pre_tokenizer"]},
              {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}}}
      .dump();
}

class TokenizerVectors : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    vectors_ = new Json(Json::parse(data_file("tokenizer_vectors.json")));
    auto parsed = Tokenizer::parse(rebuild_tokenizer_json(*vectors_), "published");
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    tokenizer_ = new Tokenizer(std::move(*parsed));
  }
  static void TearDownTestSuite() {
    delete vectors_;
    delete tokenizer_;
  }

  static std::vector<TokenId> encode(const std::string& text) {
    auto ids = tokenizer_->encode(text);
    EXPECT_TRUE(ids.ok()) << ids.error().message;
    return *ids;
  }

  static const Json* vectors_;
  static const Tokenizer* tokenizer_;
};
const Json* TokenizerVectors::vectors_ = nullptr;
const Tokenizer* TokenizerVectors::tokenizer_ = nullptr;

std::uint64_t fnv1a(std::uint64_t hash, const std::vector<TokenId>& ids) {
  for (const TokenId id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ (static_cast<std::uint32_t>(id) >> shift & 0xFF)) * 0x100000001B3ULL;
    }
  }
  return hash;
}

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

// SplitMix64, as the generator script has it.
class StringMaker {
 public:
  StringMaker(const Json& vectors, std::uint64_t seed) : vectors_(vectors), state_(seed) {}

  std::string make() {
    std::string text;
    for (auto parts = 1 + below(24); parts > 0; --parts) add_part(&text);
    return text;
  }

 private:
  std::uint64_t below(std::uint64_t bound) {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return (z ^ (z >> 31)) % bound;
  }
  const Json& pick(const char* list) { return vectors_[list][below(vectors_[list].size())]; }
  char32_t in(const Json& range) {
    const auto first = range[0].get<std::uint32_t>();
    return static_cast<char32_t>(first + below(range[1].get<std::uint32_t>() - first + 1));
  }

  void add_part(std::string* text) {
    const auto kind = below(8);
    if (kind < 3) {
      *text += pick("words").get<std::string>();
    } else if (kind == 3) {
      const Json& range = pick("ranges");
      for (auto n = 1 + below(8); n > 0; --n) append_utf8(in(range), text);
    } else if (kind == 4) {
      for (auto n = 1 + below(6); n > 0; --n) append_utf8(in(pick("ranges")), text);
    } else if (kind == 5) {
      const char32_t c = in(pick("ranges"));
      for (auto n = 1 + below(40); n > 0; --n) append_utf8(c, text);
    } else if (kind == 6) {
      *text += std::string(below(4), ' ');
      *text += std::to_string(below(1'000'000'000));
    } else {
      *text += pick("specials").get<std::string>();
    }
  }

  const Json& vectors_;
  std::uint64_t state_;
};

TEST_F(TokenizerVectors, GiveTheIdsOfTheOutsideImplementationsOnSamples) {
  for (const Json& sample : (*vectors_)["samples"]) {
    EXPECT_EQ(encode(sample[0]), sample[1].get<std::vector<TokenId>>()) << sample[0];
  }
  EXPECT_EQ(tokenizer_->vocab_size(), 129280);
  EXPECT_EQ(tokenizer_->added_token("<｜Assistant｜>"), 128804);
  EXPECT_EQ(encode("Hello, world!"), (std::vector<TokenId>{19923, 14, 2058, 3}));
}

TEST_F(TokenizerVectors, GiveTheirIdsOnTenThousandStringsOfMixedScripts) {
  const Json& hashes = (*vectors_)["hashes"];
  ASSERT_EQ(hashes.size() * k_strings_per_hash, 10'000U);
  int wrong = 0;
  for (std::size_t group = 0; group < hashes.size(); ++group) {
    std::uint64_t hash = k_fnv_offset;
    for (std::uint64_t i = 0; i < k_strings_per_hash; ++i) {
      const std::string text = StringMaker(*vectors_, group * k_strings_per_hash + i).make();
      const auto ids = encode(text);
      ASSERT_EQ(tokenizer_->decode(ids), text);
      hash = fnv1a(fnv1a(hash, ids), {-1});
    }
    if (hex(hash) != hashes[group] && ++wrong < 5) {
      ADD_FAILURE() << "strings " << group * k_strings_per_hash << " on";
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(TokenizerVectors, GiveTheirIdsForEveryAssignedCodePointInEightSurroundings) {
  std::vector<std::uint64_t> hashes(0x1100, k_fnv_offset);
  for (const Json& range : (*vectors_)["assigned"]) {
    for (auto c = range[0].get<std::uint32_t>(); c <= range[1].get<std::uint32_t>(); ++c) {
      std::string ch;
      append_utf8(c, &ch);
      std::string text = "a";
      for (const char* next : {"b 1", "2 ", " .", "\n", ""}) text += ch + next;
      text += ch;
      hashes[c >> 8] = fnv1a(hashes[c >> 8], encode(text));
    }
  }
  ASSERT_GT((*vectors_)["block_hashes"].size(), 600U);
  for (const Json& block : (*vectors_)["block_hashes"]) {
    EXPECT_EQ(hex(hashes[block[0].get<std::size_t>()]), block[1]) << "block " << block[0];
  }
}

// Quadratic merges, regex recursion or a rescan of the rest would take minutes here.
TEST_F(TokenizerVectors, LongRunsTakeTimeInProportionToTheirLength) {
  for (const char* unit : {"a", " ", "\n", "1", "。", "<", "<｜User｜>", "é ", "中", " \t"}) {
    std::string text;
    while (text.size() < 300'000) text += unit;
    EXPECT_EQ(tokenizer_->decode(encode(text)), text) << unit;
  }
}

}  // namespace
}  // namespace splitwave::serve
