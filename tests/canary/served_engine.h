// The real server with a fake engine behind it, honest or not, on a free port. For tests of the
// gate and the load generator.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "canary/faulty_engine.h"
#include "model/tiny_tokenizer.h"
#include "serve/server.h"
#include "support/temp_dir.h"

namespace splitwave::test {

class ServedEngine {
 public:
  explicit ServedEngine(model::SeededFault fault, std::uint64_t seed = 1) {
    serve::ServerConfig config;
    config.listen = "127.0.0.1:0";
    config.model_name = "fake";
    serve::test::FakeOptions fake;
    fake.vocab_size = model::k_tiny_vocabulary;
    EXPECT_TRUE(model::write_tiny_tokenizer(folder_.path().string()).ok());
    auto server = serve::Server::start(config, std::make_unique<FaultyEngine>(fake, fault, seed),
                                       *serve::Tokenizer::open(folder_.path().string()), "test");
    EXPECT_TRUE(server.ok()) << (server.ok() ? "" : server.error().message);
    server_ = std::move(*server);
  }

  [[nodiscard]] std::string url() const {
    return "http://127.0.0.1:" + std::to_string(server_->port());
  }

 private:
  TempDir folder_;
  std::unique_ptr<serve::Server> server_;
};

}  // namespace splitwave::test
