// The API over a real socket: what is answered, streamed, counted and refused.
#include <gtest/gtest.h>

#include "serve/collector.h"
#include "serve/sampler.h"
#include "serve/served.h"

namespace splitwave::serve {
namespace {

using nlohmann::json;
using test::HttpClient;
using test::HttpResponse;
using test::Served;

const std::vector<std::int32_t> k_prompt = {300, 301, 302, 303};

json completion_body(int max_tokens) {
  return {{"model", "fake"},  {"prompt", k_prompt},       {"max_tokens", max_tokens},
          {"temperature", 0}, {"return_token_ids", true}, {"ignore_eos", true}};
}

std::vector<std::int32_t> expected_ids(int max_tokens, double temperature, std::uint64_t seed) {
  GenerationRequest r;
  r.prompt = k_prompt;
  r.max_tokens = max_tokens;
  r.sampling.temperature = temperature;
  r.sampling.seed = seed;
  r.sampling.ignore_eos = true;
  test::FakeOptions fake;
  fake.vocab_size = test::k_tiny_vocab;
  return test::expected_tokens(r, fake);
}

TEST(Api, ACompletionIsTheEnginesOwnTokens) {
  const Served served;
  const HttpResponse r = served.post("/v1/completions", completion_body(20));
  ASSERT_EQ(r.status, 200) << r.body;
  const json body = r.json();
  EXPECT_EQ(body["object"], "text_completion");
  const json& choice = body["choices"][0];
  EXPECT_EQ(choice["token_ids"], json(expected_ids(20, 0, 0)));
  EXPECT_EQ(choice["prompt_token_ids"], json(k_prompt));
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["prompt_tokens"], 4);
  EXPECT_EQ(body["usage"]["completion_tokens"], 20);
  EXPECT_EQ(body["usage"]["total_tokens"], 24);
}

TEST(Api, TheSameSeedDrawsTheSameTokensAndAnotherDoesNot) {
  const Served served;
  json body = completion_body(30);
  body["temperature"] = 1;
  body["seed"] = 7;
  const json a = served.post("/v1/completions", body).json();
  EXPECT_EQ(a["choices"][0]["token_ids"], json(expected_ids(30, 1, 7)));
  body["seed"] = 8;
  const json b = served.post("/v1/completions", body).json();
  EXPECT_NE(a["choices"][0]["token_ids"], b["choices"][0]["token_ids"]);
}

TEST(Api, AStreamAddsUpToTheAnswerThatIsNotStreamed) {
  const Served served;
  for (const bool is_chat : {false, true}) {
    json body = {{"max_tokens", 60}, {"temperature", 1},         {"seed", 3},
                 {"model", "fake"},  {"return_token_ids", true}, {"ignore_eos", true}};
    if (is_chat) {
      body["messages"] = json::array({{{"role", "user"}, {"content", "hello"}}});
    } else {
      body["prompt"] = "hello";
    }
    const std::string path = is_chat ? "/v1/chat/completions" : "/v1/completions";
    const json whole = served.post(path, body).json();
    ASSERT_TRUE(whole.contains("choices")) << whole;
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
    const HttpResponse r = served.post(path, body);
    ASSERT_EQ(r.status, 200) << r.body;
    EXPECT_TRUE(r.header("Content-Type").starts_with("text/event-stream"));
    const std::vector<std::string> events = r.events();
    ASSERT_GE(events.size(), 3U);
    EXPECT_EQ(events.back(), "[DONE]");
    std::string text;
    json ids = json::array();
    std::string finish;
    for (std::size_t i = 0; i + 2 < events.size(); ++i) {
      const json choice = json::parse(events[i])["choices"][0];
      EXPECT_EQ(finish, "") << "a chunk after the last";
      for (const json& id : choice["token_ids"]) ids.push_back(id);
      if (is_chat) {
        text += choice["delta"].value("content", "");
        EXPECT_EQ(choice["delta"].contains("role"), i == 0);
      } else {
        text += choice["text"].get<std::string>();
      }
      if (!choice["finish_reason"].is_null()) finish = choice["finish_reason"];
    }
    const json usage = json::parse(events[events.size() - 2]);
    EXPECT_EQ(usage["choices"], json::array());
    EXPECT_EQ(usage["usage"], whole["usage"]);
    const json& choice = whole["choices"][0];
    EXPECT_EQ(text, is_chat ? choice["message"]["content"] : choice["text"]);
    EXPECT_EQ(ids, choice["token_ids"]);
    EXPECT_EQ(finish, choice["finish_reason"]);
  }
}

TEST(Api, LogprobsHashesAndForcedTokensComeWithEachToken) {
  const Served served;
  json body = completion_body(4);
  body["forced_token_ids"] = {400, 401};
  body["logit_hashes"] = true;
  body["logprobs"] = 3;
  const json choice = served.post("/v1/completions", body).json()["choices"][0];
  EXPECT_EQ(choice["token_ids"][0], 400);
  EXPECT_EQ(choice["token_ids"][1], 401);
  std::vector<std::int32_t> tokens = k_prompt;
  tokens.push_back(400);
  std::vector<float> logits(test::k_tiny_vocab);
  test::FakeEngine::fill(tokens, logits);
  char expected[17];
  std::snprintf(expected, sizeof expected, "%016llx",
                static_cast<unsigned long long>(hash_logits(logits)));
  ASSERT_EQ(choice["logit_hashes"].size(), 4U);
  EXPECT_EQ(choice["logit_hashes"][1], expected);
  EXPECT_EQ(choice["logprobs"]["tokens"].size(), 4U);
  EXPECT_LE(choice["logprobs"]["top_logprobs"][0].size(), 3U);

  const json chat = {{"messages", json::array({{{"role", "user"}, {"content", "x"}}})},
                     {"max_tokens", 3},
                     {"logprobs", true},
                     {"top_logprobs", 2},
                     {"ignore_eos", true}};
  const json logprobs =
      served.post("/v1/chat/completions", chat).json()["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(logprobs.size(), 3U);
  EXPECT_EQ(logprobs[0]["top_logprobs"].size(), 2U);
  EXPECT_TRUE(logprobs[0]["bytes"].is_array());
}

TEST(Api, AStopStringEndsTheTextBeforeIt) {
  const Served served;
  json body = completion_body(60);
  const std::string text = served.post("/v1/completions", body).json()["choices"][0]["text"];
  std::size_t at = text.size() / 2;
  while (at < text.size() && (text[at] & 0xC0) == 0x80) ++at;  // a code point's beginning
  std::size_t end = at + 1;
  while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
  const std::string stop = text.substr(at, end - at);
  body["stop"] = {stop};
  const json choice = served.post("/v1/completions", body).json()["choices"][0];
  EXPECT_EQ(choice["text"], text.substr(0, text.find(stop)));
  EXPECT_EQ(choice["finish_reason"], "stop");
  body["stream"] = true;
  std::string streamed;
  for (const std::string& event : served.post("/v1/completions", body).events()) {
    if (event != "[DONE]") streamed += json::parse(event)["choices"][0]["text"];
  }
  EXPECT_EQ(streamed, choice["text"]);
}

struct Refusal {
  const char* what;
  const char* path;
  std::string body;
  int status;
  const char* param;  // null: JSON null
};

TEST(Api, EveryBadBodyIsRefusedWithTheFieldsName) {
  const Served served;
  const std::string chat = "/v1/chat/completions";
  const std::vector<Refusal> refusals = {
      {"empty body", "/v1/completions", "", 400, nullptr},
      {"not JSON", "/v1/completions", "{\"prompt\": ", 400, nullptr},
      {"an array", "/v1/completions", "[]", 400, nullptr},
      {"not UTF-8", "/v1/completions", "{\"prompt\": \"\xff\"}", 400, nullptr},
      {"a lone surrogate", "/v1/completions", "{\"prompt\": \"\\ud800\"}", 400, nullptr},
      {"too deep", "/v1/completions", std::string(100000, '['), 400, nullptr},
      {"no prompt", "/v1/completions", "{}", 400, "prompt"},
      {"an empty prompt", "/v1/completions", R"({"prompt": ""})", 400, "prompt"},
      {"two prompts", "/v1/completions", R"({"prompt": ["a", "b"]})", 400, "prompt"},
      {"an id too large", "/v1/completions", R"({"prompt": [4096]})", 400, "prompt"},
      {"a negative id", "/v1/completions", R"({"prompt": [-1]})", 400, "prompt"},
      {"a huge id", "/v1/completions", R"({"prompt": [18446744073709551615]})", 400, "prompt"},
      {"max_tokens 0", "/v1/completions", R"({"prompt": "a", "max_tokens": 0})", 400, "max_tokens"},
      {"max_tokens 2^64", "/v1/completions",
       R"({"prompt": "a", "max_tokens": 18446744073709551615})", 400, "max_tokens"},
      {"max_tokens text", "/v1/completions", R"({"prompt": "a", "max_tokens": "9"})", 400,
       "max_tokens"},
      {"temperature 3", "/v1/completions", R"({"prompt": "a", "temperature": 3})", 400,
       "temperature"},
      {"top_p -1", "/v1/completions", R"({"prompt": "a", "top_p": -1})", 400, "top_p"},
      {"n 2", "/v1/completions", R"({"prompt": "a", "n": 2})", 400, "n"},
      {"a typing mistake", "/v1/completions", R"({"prompt": "a", "temprature": 1})", 400,
       "temprature"},
      {"an empty stop", "/v1/completions", R"({"prompt": "a", "stop": [""]})", 400, "stop"},
      {"a penalty", "/v1/completions", R"({"prompt": "a", "presence_penalty": 1})", 400,
       "presence_penalty"},
      {"options without stream", "/v1/completions",
       R"({"prompt": "a", "stream_options": {"include_usage": true}})", 400, "stream_options"},
      {"another model", "/v1/completions", R"({"prompt": "a", "model": "gpt-4"})", 404, "model"},
      {"no messages", chat.c_str(), "{}", 400, "messages"},
      {"no message", chat.c_str(), R"({"messages": []})", 400, "messages"},
      {"an unknown role", chat.c_str(), R"({"messages": [{"role": "boss", "content": "x"}]})", 400,
       "messages[0].role"},
      {"content 7", chat.c_str(), R"({"messages": [{"role": "user", "content": 7}]})", 400,
       "messages[0].content"},
      {"tools text", chat.c_str(),
       R"({"messages": [{"role": "user", "content": "x"}], "tools": "all"})", 400, "tools"},
      {"a forced tool", chat.c_str(),
       R"({"messages": [{"role": "user", "content": "x"}], "tool_choice": "required"})", 400,
       "tool_choice"},
      {"top_logprobs alone", chat.c_str(),
       R"({"messages": [{"role": "user", "content": "x"}], "top_logprobs": 2})", 400,
       "top_logprobs"},
  };
  for (const Refusal& bad : refusals) {
    const HttpResponse r = HttpClient(served.port()).request("POST", bad.path, bad.body);
    EXPECT_EQ(r.status, bad.status) << bad.what << ": " << r.body;
    const json error = json::parse(r.body, nullptr, false);
    ASSERT_TRUE(error.is_object()) << bad.what << ": " << r.body;
    EXPECT_FALSE(error["error"]["message"].get<std::string>().empty()) << bad.what;
    EXPECT_EQ(error["error"]["param"], bad.param == nullptr ? json(nullptr) : json(bad.param))
        << bad.what << ": " << r.body;
  }
  EXPECT_EQ(served.steps(), 0) << "a refused request reached the engine";
}

TEST(Api, APromptLongerThanTheContextIsRefused) {
  ServerConfig config;
  config.engine.positions_max = 32;
  const Served served(config);
  json body = completion_body(10);
  body["prompt"] = std::vector<std::int32_t>(23, 300);
  const HttpResponse r = served.post("/v1/completions", body);
  EXPECT_EQ(r.status, 400);
  EXPECT_EQ(r.json()["error"]["code"], "context_length_exceeded");
  body["max_tokens"] = 9;
  EXPECT_EQ(served.post("/v1/completions", body).status, 200);
}

TEST(Api, MethodsPathsAndTypesAreRefusedByTheirStatus) {
  const Served served;
  EXPECT_EQ(served.get("/v1/completions").status, 405);
  EXPECT_EQ(served.get("/v1/completions").header("Allow"), "POST");
  EXPECT_EQ(served.get("/nothing").status, 404);
  EXPECT_EQ(served.get("/v1/models/other").status, 404);
  EXPECT_EQ(served.get("/v1/models/fake").status, 200);
  HttpClient client(served.port());
  client.send_raw(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n"
      "Content-Length: 2\r\n\r\n{}");
  EXPECT_EQ(client.read_response().status, 415);
  HttpClient head(served.port());
  head.send_raw("HEAD /health HTTP/1.0\r\n\r\n");
  EXPECT_NE(head.read_response().head.find(" 200 "), std::string::npos);
}

TEST(Api, TheSmallPagesSayWhatTheyMust) {
  const Served served;
  EXPECT_EQ(served.get("/health").status, 200);
  EXPECT_EQ(served.get("/ready").status, 200);
  EXPECT_EQ(served.get("/version").json()["version"], "test");
  EXPECT_EQ(served.get("/v1/models").json()["data"][0]["id"], "fake");
  const json config = served.get("/config").json();
  EXPECT_EQ(config["batch_dependent"], false);
  EXPECT_EQ(config["effective"]["backend"], "fake");
  EXPECT_EQ(config["scheduler"]["tokens_per_step"], 512);
  const json profile = served.get("/profile").json();
  EXPECT_EQ(profile["operators"][0]["name"], "attention");
  EXPECT_EQ(profile["device"]["backend"], "fake");
}

TEST(Api, MetricsCountUnderVllmsNames) {
  const Served served;
  for (int i = 0; i < 3; ++i) (void)served.post("/v1/completions", completion_body(5));
  const std::string text = served.get("/metrics").body;
  for (const char* name :
       {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
        "vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:num_preemptions_total",
        "vllm:request_success_total", "vllm:time_to_first_token_seconds_bucket",
        "vllm:inter_token_latency_seconds_bucket", "vllm:e2e_request_latency_seconds_bucket",
        "vllm:request_queue_time_seconds_bucket", "vllm:iteration_tokens_total_bucket",
        "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"}) {
    EXPECT_NE(text.find("\n" + std::string(name) + "{"), std::string::npos) << name;
  }
  EXPECT_EQ(served.metric("vllm:prompt_tokens_total"), 12);
  EXPECT_EQ(served.metric("vllm:generation_tokens_total"), 15);
  EXPECT_EQ(served.metric("vllm:time_to_first_token_seconds_count"), 3);
  EXPECT_NE(text.find("finished_reason=\"length\",model_name=\"fake\"} 3"), std::string::npos);
}

TEST(Api, AKeyIsAskedForEverywhereButOnHealthAndReady) {
  const splitwave::test::TempDir folder;
  const std::string file = folder.file("keys");
  FILE* f = std::fopen(file.c_str(), "w");
  std::fputs("# ops\nsixteen-bytes-or-more\n", f);
  std::fclose(f);
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  ServerConfig config;
  config.api_key_file = file;
  const Served served(config);
  EXPECT_EQ(served.get("/health").status, 200);
  EXPECT_EQ(served.get("/v1/models").status, 401);
  EXPECT_EQ(served.get("/metrics").status, 401);
  const auto with = [&](const std::string& key) {
    return HttpClient(served.port())
        .request("GET", "/v1/models", "", "Authorization: Bearer " + key + "\r\n")
        .status;
  };
  EXPECT_EQ(with("sixteen-bytes-or-more"), 200);
  EXPECT_EQ(with("sixteen-bytes-or-mor"), 401);
  EXPECT_EQ(with("sixteen-bytes-or-moresixteen-bytes-or-more"), 401);
  EXPECT_EQ(with(""), 401);
}

}  // namespace
}  // namespace splitwave::serve
