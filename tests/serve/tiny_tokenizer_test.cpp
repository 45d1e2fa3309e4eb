// The tokenizer that the tiny model ships: V4's control tokens, every text back, and what a tool
// session costs.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "model/make_tiny.h"
#include "model/tiny_tokenizer.h"
#include "serve/chat_encoding.h"
#include "serve/tokenizer.h"
#include "support/temp_dir.h"

namespace splitwave::serve {
namespace {

using Json = nlohmann::ordered_json;

Tokenizer tiny() {
  auto t = Tokenizer::parse(model::tiny_tokenizer_json(), "tiny");
  EXPECT_TRUE(t.ok()) << t.error().message;
  return std::move(*t);
}

TEST(TinyTokenizer, HasTheTinyVocabularyAndV4sControlTokens) {
  const Tokenizer t = tiny();
  EXPECT_EQ(t.vocab_size(), model::k_tiny_vocabulary);
  EXPECT_EQ(t.added_token(k_bos_text), 0);
  EXPECT_EQ(t.added_token(k_eos_text), 1);
  for (const char* token : {"<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "｜DSML｜"}) {
    ASSERT_TRUE(t.added_token(token).has_value()) << token;
    EXPECT_EQ(t.encode(token)->size(), 1U);
  }
  std::set<std::string_view> seen;
  for (TokenId id = 0; id < t.vocab_size(); ++id) {
    EXPECT_FALSE(t.bytes(id).empty()) << id;
    EXPECT_TRUE(seen.insert(t.bytes(id)).second) << id;
  }
}

TEST(TinyTokenizer, IsWrittenBesideTheTinyCheckpoint) {
  const test::TempDir dir;
  ASSERT_TRUE(model::make_tiny(dir.path().string(), {}).ok());
  const auto t = Tokenizer::open(dir.path().string());
  ASSERT_TRUE(t.ok()) << t.error().message;
  EXPECT_EQ(t->vocab_size(), model::tiny_config({}).vocab_size);
  for (const char* name : {"tokenizer_config.json", "generation_config.json"}) {
    EXPECT_TRUE(Json::accept(*read_file(dir.file(name), 4096))) << name;
  }
}

// The prompts of the canary's sessions, tools and all, as the server encodes them.
TEST(TinyTokenizer, CostsAtMostThreeTenthsOfATokenPerByteOfAToolSession) {
  const Tokenizer t = tiny();
  const Json data = Json::parse(*read_file(
      std::string(SPLITWAVE_SOURCE_DIR) + "/src/load/canary_sessions.json", std::int64_t{1} << 20));
  std::size_t bytes = 0;
  std::size_t tokens = 0;
  for (const Json& session : data["sessions"]) {
    std::vector<ChatMessage> messages;
    for (const Json& turn : session["turns"]) {
      messages.emplace_back().content = turn;
      messages.emplace_back().role = ChatRole::assistant;
    }
    messages.pop_back();
    std::vector<std::string> tools;
    for (const Json& tool : data["tools"]) {
      for (const Json& call : session["calls"]) {
        if (call == tool["name"]) {
          tools.push_back(*python_json(tool));
          break;
        }
      }
    }
    attach_tools(&messages, std::move(tools));
    const auto prompt = encode_chat(messages, {});
    ASSERT_TRUE(prompt.ok()) << prompt.error().message;
    const auto ids = *t.encode(prompt->text, prompt->literal);
    ASSERT_EQ(t.decode(ids), prompt->text);
    bytes += prompt->text.size();
    tokens += ids.size();
  }
  const double ratio = static_cast<double>(tokens) / static_cast<double>(bytes);
  EXPECT_LE(ratio, 0.3);
  EXPECT_GT(ratio, 0.1);  // a vocabulary that holds the sessions by heart would say nothing
  RecordProperty("tokens_per_byte", std::to_string(ratio));
  std::printf("%.4f token a byte, %zu tokens a session\n", ratio, tokens / data["sessions"].size());
}

}  // namespace
}  // namespace splitwave::serve
