// What bad networks and bad clients do: slow, broken, oversized, vanished, too many at once. The
// server answers or closes in bounded time, frees what was held, and serves the next one.
#include <gtest/gtest.h>

#include <thread>

#include "serve/served.h"

namespace splitwave::serve {
namespace {

using nlohmann::json;
using test::HttpClient;
using test::HttpResponse;
using test::Served;

json endless(bool stream) {
  return {{"prompt", {300, 301}},
          {"max_tokens", 4000},
          {"temperature", 0},
          {"stream", stream},
          {"ignore_eos", true}};
}

json short_body() {
  return {{"prompt", {300, 301}}, {"max_tokens", 3}, {"temperature", 0}, {"ignore_eos", true}};
}

ServerConfig quick_limits() {
  ServerConfig config;
  config.http.header_s = 1;
  config.http.body_s = 1;
  config.http.idle_s = 1;
  config.http.body_bytes_max = 4096;
  config.http.header_bytes_max = 2048;
  return config;
}

void expect_serving(const Served& served) {
  EXPECT_EQ(served.post("/v1/completions", short_body()).status, 200);
}

TEST(Abuse, SlowLorisIsCutOffWhileOthersAreServed) {
  const Served served(quick_limits());
  HttpClient header(served.port());
  HttpClient body(served.port());
  HttpClient silent(served.port());
  header.send_raw("GET /health HTTP/1.1\r\nHost: x\r\nX-A");
  body.send_raw(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
      "Content-Length: 100\r\n\r\n{");
  const auto start = Clock::now();
  std::thread trickle([&] {
    for (int i = 0; i < 30; ++i) {
      header.send_raw("a");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  expect_serving(served);
  EXPECT_EQ(body.read_response().status, 408);
  trickle.join();
  EXPECT_EQ(header.read_response().status, 408) << "a trickle must not extend the deadline";
  EXPECT_TRUE(silent.wait_closed(5000));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(8));
  expect_serving(served);
}

TEST(Abuse, OversizedHeadersAndBodiesAreRefusedUnread) {
  const Served served(quick_limits());
  HttpClient declared(served.port());
  declared.send_raw(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
      "Content-Length: 999999999999\r\n\r\n");
  EXPECT_EQ(declared.read_response().status, 413);
  HttpClient sent(served.port());
  EXPECT_EQ(sent.request("POST", "/v1/completions", std::string(100'000, 'x')).status, 413);
  HttpClient chunked(served.port());
  chunked.send_raw(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n2000\r\n" +
      std::string(0x2000, 'x') + "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.read_response().status, 413);
  HttpClient header(served.port());
  header.send_raw("GET /health HTTP/1.1\r\nX-Large: " + std::string(10'000, 'x') + "\r\n\r\n");
  EXPECT_EQ(header.read_response().status, 431);
  expect_serving(served);
}

TEST(Abuse, MalformedHttpGetsA400OrAClosedConnection) {
  const Served served(quick_limits());
  for (const char* bytes :
       {"\r\n\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "G\x01T / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nBad Header: x\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "POST /v1/completions HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: "
        "chunked\r\n\r\n0\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"}) {  // TLS to a plain port
    HttpClient client(served.port());
    client.send_raw(bytes);
    const HttpResponse r = client.read_response();
    EXPECT_TRUE(r.status == 0 || r.status == 400 || r.status == 408) << bytes << r.head;
  }
  expect_serving(served);
}

TEST(Abuse, ADisconnectCancelsTheGenerationStreamedOrNot) {
  test::FakeOptions fake;
  fake.step_delay = std::chrono::milliseconds(1);
  const Served served({}, fake);
  for (const bool stream : {true, false}) {
    HttpClient client(served.port());
    client.send_raw(HttpClient::request_text("POST", "/v1/completions", endless(stream).dump()));
    ASSERT_TRUE(
        Served::eventually([&] { return served.metric("vllm:num_requests_running") == 1; }));
    client.close();
    EXPECT_TRUE(Served::eventually([&] { return served.metric("vllm:num_requests_running") == 0; }))
        << (stream ? "streamed" : "not streamed");
  }
  EXPECT_EQ(served.metric("vllm:kv_cache_usage_perc"), 0);
  EXPECT_LT(served.metric("vllm:generation_tokens_total"), 8000) << "both ran to their end";
}

TEST(Abuse, AReaderThatStopsReadingIsDroppedAndItsGenerationEnds) {
  ServerConfig config;
  config.http.output_bytes_max = 64 << 10;
  config.http.write_s = 1;
  config.output_tokens_max = 200'000;
  config.engine.positions_max = 300'000;
  test::FakeOptions fake;
  const Served served(config, fake);
  HttpClient client(served.port(), 4096);
  json body = endless(true);
  body["max_tokens"] = 200'000;
  client.send_raw(HttpClient::request_text("POST", "/v1/completions", body.dump()));
  ASSERT_TRUE(Served::eventually([&] { return served.metric("vllm:num_requests_running") == 1; }));
  EXPECT_TRUE(
      Served::eventually([&] { return served.metric("vllm:num_requests_running") == 0; }, 30'000));
  EXPECT_LT(served.metric("vllm:generation_tokens_total"), 200'000);
}

TEST(Abuse, AFullQueueSays429WithRetryAfterAndNothingIsLost) {
  ServerConfig config;
  config.scheduler.sequences_max = 1;
  config.scheduler.waiting_max = 2;
  test::FakeOptions fake;
  fake.step_delay = std::chrono::milliseconds(2);
  const Served served(config, fake);
  HttpClient runs(served.port());
  runs.send_raw(HttpClient::request_text("POST", "/v1/completions", endless(true).dump()));
  ASSERT_TRUE(Served::eventually([&] { return served.metric("vllm:num_requests_running") == 1; }));
  HttpClient first(served.port());
  HttpClient second(served.port());
  for (HttpClient* c : {&first, &second}) {
    c->send_raw(HttpClient::request_text("POST", "/v1/completions", short_body().dump()));
  }
  ASSERT_TRUE(Served::eventually([&] { return served.metric("vllm:num_requests_waiting") == 2; }));
  const HttpResponse refused = served.post("/v1/completions", short_body());
  EXPECT_EQ(refused.status, 429);
  EXPECT_GE(std::atoi(refused.header("Retry-After").c_str()), 1);
  EXPECT_EQ(refused.json()["error"]["type"], "rate_limit_error");
  runs.close();
  EXPECT_EQ(first.read_response().status, 200);
  EXPECT_EQ(second.read_response().status, 200);
}

TEST(Abuse, TooManyConnectionsAreTurnedAwayAndPlacesComeBack) {
  ServerConfig config;
  config.http.connections_max = 3;
  const Served served(config);
  std::vector<std::unique_ptr<HttpClient>> open;
  for (int i = 0; i < 3; ++i) {
    open.push_back(std::make_unique<HttpClient>(served.port()));
    EXPECT_EQ(open.back()->request("GET", "/health").status, 200);
  }
  HttpClient extra(served.port());
  EXPECT_EQ(extra.read_response().status, 503);
  open.clear();
  EXPECT_TRUE(Served::eventually([&] { return served.get("/health").status == 200; }));
}

TEST(Abuse, PipelinedAndDuplicateRequestsAreEachAnsweredInOrder) {
  const Served served;
  HttpClient client(served.port());
  const std::string one = HttpClient::request_text("POST", "/v1/completions", short_body().dump());
  client.send_raw(one + one + HttpClient::request_text("GET", "/version", "") + one);
  const HttpResponse a = client.read_response();
  const HttpResponse b = client.read_response();
  const HttpResponse version = client.read_response();
  const HttpResponse c = client.read_response();
  ASSERT_EQ(a.status, 200);
  EXPECT_EQ(version.json()["version"], "test");
  EXPECT_EQ(a.json()["choices"], b.json()["choices"]);
  EXPECT_EQ(a.json()["choices"], c.json()["choices"]);
  EXPECT_NE(a.json()["id"], b.json()["id"]);
}

TEST(Abuse, ExpectContinueChunkedBodiesAndHttp10Work) {
  const Served served;
  const std::string body = short_body().dump();
  HttpClient expects(served.port());
  EXPECT_EQ(expects.request("POST", "/v1/completions", body, "Expect: 100-continue\r\n").status,
            200);
  HttpClient chunked(served.port());
  char size[16];
  std::snprintf(size, sizeof size, "%zx", body.size());
  chunked.send_raw(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n" +
      std::string(size) + "\r\n" + body + "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.read_response().status, 200);
  json streamed = short_body();
  streamed["stream"] = true;
  const std::string text = streamed.dump();
  HttpClient old(served.port());
  old.send_raw(
      "POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: " +
      std::to_string(text.size()) + "\r\n\r\n" + text);
  const HttpResponse r = old.read_response();
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.head.find("chunked"), std::string::npos);
  EXPECT_EQ(r.events().back(), "[DONE]");
}

TEST(Abuse, TwoHundredStreamsAtOnceAllCompleteWithTheirOwnTokens) {
  ServerConfig config;
  config.scheduler.sequences_max = 64;
  config.scheduler.waiting_max = 256;
  test::FakeOptions fake;
  fake.pages_total = 600;  // 64 sequences of up to 44 tokens need 704: some are preempted
  const Served served(config, fake);
  const auto body_of = [](int i) {
    return json{
        {"prompt", {300, 301 + i, 302, 303}}, {"max_tokens", 40},  {"seed", i}, {"stream", true},
        {"return_token_ids", true},           {"ignore_eos", true}};
  };
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(std::make_unique<HttpClient>(served.port()));
    clients.back()->send_raw(
        HttpClient::request_text("POST", "/v1/completions", body_of(i).dump()));
  }
  const auto ids_of = [](const HttpResponse& r) {
    json ids = json::array();
    for (const std::string& event : r.events()) {
      if (event == "[DONE]") continue;
      const json chunk = json::parse(event);
      for (const json& id : chunk["choices"][0]["token_ids"]) ids.push_back(id);
    }
    return ids;
  };
  std::vector<json> together;
  for (const auto& client : clients) {
    const HttpResponse r = client->read_response();
    ASSERT_EQ(r.status, 200) << r.body;
    together.push_back(ids_of(r));
    ASSERT_EQ(together.back().size(), 40U);
  }
  EXPECT_GT(served.metric("vllm:num_preemptions_total"), 0);
  for (const int i : {0, 63, 64, 199}) {
    EXPECT_EQ(ids_of(served.post("/v1/completions", body_of(i))),
              together[static_cast<std::size_t>(i)]);
  }
}

TEST(Abuse, DrainingFinishesWhatRunsAndRefusesWhatComes) {
  ServerConfig config;
  config.drain_s = 20;
  test::FakeOptions fake;
  fake.step_delay = std::chrono::milliseconds(2);
  Served served(config, fake);
  json body = short_body();
  body["max_tokens"] = 300;
  HttpClient runs(served.port());
  HttpClient waits(served.port());
  EXPECT_EQ(waits.request("GET", "/ready").status, 200);
  runs.send_raw(HttpClient::request_text("POST", "/v1/completions", body.dump()));
  ASSERT_TRUE(Served::eventually([&] { return served.metric("vllm:num_requests_running") == 1; }));
  bool was_idle = false;
  std::thread drain([&] { was_idle = served.server().drain_and_stop(); });
  EXPECT_TRUE(
      Served::eventually([&] { return waits.request("GET", "/ready").status == 503; }, 400));
  const HttpResponse late = waits.post("/v1/completions", short_body());
  EXPECT_EQ(late.status, 503);
  EXPECT_FALSE(late.header("Retry-After").empty());
  const HttpResponse r = runs.read_response();
  drain.join();
  EXPECT_TRUE(was_idle);
  ASSERT_EQ(r.status, 200);
  EXPECT_EQ(r.json()["usage"]["completion_tokens"], 300);
}

TEST(Abuse, WhatOutlivesTheGraceIsEndedWithA503) {
  ServerConfig config;
  config.drain_s = 0;
  test::FakeOptions fake;
  fake.step_delay = std::chrono::milliseconds(2);
  Served served(config, fake);
  HttpClient runs(served.port());
  runs.send_raw(HttpClient::request_text("POST", "/v1/completions", endless(false).dump()));
  ASSERT_TRUE(Served::eventually([&] { return served.metric("vllm:num_requests_running") == 1; }));
  EXPECT_FALSE(served.server().drain_and_stop());
  EXPECT_EQ(runs.read_response().status, 503);
}

}  // namespace
}  // namespace splitwave::serve
