// The server as a process with the fake engine behind it, for tests that need a process: outside
// clients, kill -9, signals. Prints its port. Not part of the product.
// Usage: fake_server FOLDER [PORT [STEP_DELAY_US]]
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "model/tiny_tokenizer.h"
#include "serve/fake_engine.h"
#include "serve/server.h"

int main(int argc, char** argv) {
  using namespace splitwave;
  if (argc < 2) return 2;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  serve::test::FakeOptions fake;
  fake.vocab_size = model::k_tiny_vocabulary;
  fake.step_delay = std::chrono::microseconds(argc > 3 ? std::atoi(argv[3]) : 0);
  serve::ServerConfig config;
  config.listen = std::string("127.0.0.1:") + (argc > 2 ? argv[2] : "0");
  config.model_name = "fake";
  if (!model::write_tiny_tokenizer(argv[1]).ok()) return 3;
  auto tokenizer = serve::Tokenizer::open(argv[1]);
  if (!tokenizer.ok()) return 3;
  auto server = serve::Server::start(config, std::make_unique<serve::test::FakeEngine>(fake),
                                     std::move(*tokenizer), "test");
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.error().message.c_str());
    return 3;
  }
  std::printf("%d\n", (*server)->port());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  return (*server)->drain_and_stop() ? 0 : 1;
}
