// A server on a free port with the fake engine behind it and the tiny model's tokenizer.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "model/tiny_tokenizer.h"
#include "serve/fake_engine.h"
#include "serve/http_client.h"
#include "serve/server.h"
#include "support/temp_dir.h"

namespace splitwave::serve::test {

inline constexpr int k_tiny_vocab = 4096;

class Served {
 public:
  explicit Served(ServerConfig config = {}, FakeOptions fake = {}) : fake_options_(fake) {
    fake_options_.vocab_size = k_tiny_vocab;
    config.listen = "127.0.0.1:0";
    config.model_name = "fake";
    auto engine = std::make_unique<FakeEngine>(fake_options_);
    engine_ = engine.get();
    EXPECT_TRUE(model::write_tiny_tokenizer(folder_.path().string()).ok());
    auto tokenizer = Tokenizer::open(folder_.path().string());
    EXPECT_TRUE(tokenizer.ok());
    auto server = Server::start(config, std::move(engine), std::move(*tokenizer), "test");
    EXPECT_TRUE(server.ok()) << (server.ok() ? "" : server.error().message);
    server_ = std::move(*server);
  }

  [[nodiscard]] int port() const { return server_->port(); }
  [[nodiscard]] Server& server() { return *server_; }
  [[nodiscard]] const FakeOptions& fake() const { return fake_options_; }
  [[nodiscard]] int steps() const { return engine_->steps; }

  [[nodiscard]] HttpResponse post(const std::string& path, const nlohmann::json& body) const {
    return HttpClient(port()).post(path, body);
  }
  [[nodiscard]] HttpResponse get(const std::string& path) const {
    return HttpClient(port()).request("GET", path);
  }
  // The value of a metric without labels but the model's.
  [[nodiscard]] double metric(const std::string& name) const {
    const std::string text = get("/metrics").body;
    const std::size_t at = text.find("\n" + name + "{");
    if (at == std::string::npos) return -1;
    return std::atof(text.c_str() + text.find("} ", at) + 2);
  }
  // Whether the condition holds within the time.
  template <class Condition>
  static bool eventually(Condition condition, int timeout_ms = 10'000) {
    const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
    while (Clock::now() < deadline) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

 private:
  splitwave::test::TempDir folder_;
  FakeOptions fake_options_;
  FakeEngine* engine_ = nullptr;
  std::unique_ptr<Server> server_;
};

}  // namespace splitwave::serve::test
