// An HTTP server for tests of the load generator and the canary: one thread a connection, answers
// from a function, streams with declared pauses. Not for anything else.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace splitwave::test {

struct StubRequest {
  std::string method;
  std::string path;
  std::string body;
};

// Pieces of a body, each written after a pause.
struct StubResponse {
  int status = 200;
  std::string type = "application/json";
  std::vector<std::pair<int, std::string>> pieces;  // ms, bytes
};

class StubServer {
 public:
  using Answer = std::function<StubResponse(const StubRequest&)>;

  explicit StubServer(Answer answer) : answer_(std::move(answer)) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0) std::abort();
    if (listen(listener_, 256) != 0) std::abort();
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~StubServer() {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    close(listener_);
    for (std::thread& thread : connections_) thread.join();
  }
  StubServer(const StubServer&) = delete;
  StubServer& operator=(const StubServer&) = delete;

  [[nodiscard]] const std::string& url() const { return url_; }
  [[nodiscard]] int in_flight_max() const { return in_flight_max_; }

 private:
  void accept_all() {
    while (true) {
      const int connection = accept(listener_, nullptr, nullptr);
      if (connection < 0) return;
      connections_.emplace_back([this, connection] { serve(connection); });
    }
  }

  void serve(int connection) {
    std::string bytes;
    char buffer[65536];
    std::size_t body_at = std::string::npos;
    std::size_t length = 0;
    while (true) {
      if (body_at == std::string::npos) {
        if (const auto end = bytes.find("\r\n\r\n"); end != std::string::npos) {
          body_at = end + 4;
          const auto field = bytes.find("Content-Length: ");
          if (field < end) length = std::stoul(bytes.substr(field + 16));
        }
      }
      if (body_at != std::string::npos && bytes.size() >= body_at + length) break;
      const ssize_t n = recv(connection, buffer, sizeof buffer, 0);
      if (n <= 0) break;
      bytes.append(buffer, static_cast<std::size_t>(n));
    }
    if (body_at != std::string::npos) respond(connection, bytes, body_at);
    close(connection);
  }

  void respond(int connection, const std::string& bytes, std::size_t body_at) {
    StubRequest request;
    const auto space = bytes.find(' ');
    request.method = bytes.substr(0, space);
    request.path = bytes.substr(space + 1, bytes.find(' ', space + 1) - space - 1);
    request.body = bytes.substr(body_at);
    if (request.method == "POST") {
      const int now = ++in_flight_;
      int seen = in_flight_max_;
      while (now > seen && !in_flight_max_.compare_exchange_weak(seen, now)) {
      }
    }
    const StubResponse response = answer_(request);
    write(connection, "HTTP/1.1 " + std::to_string(response.status) +
                          " X\r\nContent-Type: " + response.type + "\r\nConnection: close\r\n\r\n");
    for (std::size_t i = 0; i < response.pieces.size(); ++i) {
      const auto& [pause_ms, piece] = response.pieces[i];
      std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
      if (i + 1 == response.pieces.size() && request.method == "POST") --in_flight_;
      write(connection, piece);
    }
  }

  static void write(int connection, const std::string& bytes) {
    std::size_t at = 0;
    while (at < bytes.size()) {
      const ssize_t n = send(connection, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return;
      at += static_cast<std::size_t>(n);
    }
  }

  Answer answer_;
  int listener_ = -1;
  std::string url_;
  std::thread acceptor_;
  std::vector<std::thread> connections_;  // of the acceptor's thread until it is joined
  std::atomic<int> in_flight_{0};
  std::atomic<int> in_flight_max_{0};
};

}  // namespace splitwave::test
