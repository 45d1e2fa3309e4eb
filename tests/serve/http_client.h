// A blocking HTTP client over a plain socket, so that tests can also send what no client would:
// half a request, garbage, nothing. Used by the API tests.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace splitwave::serve::test {

struct HttpResponse {
  int status = 0;  // 0: the connection ended without an answer
  std::string head;
  std::string body;  // chunks joined

  [[nodiscard]] nlohmann::json json() const { return nlohmann::json::parse(body); }
  [[nodiscard]] std::string header(const std::string& name) const {
    const std::size_t at = head.find("\r\n" + name + ": ");
    if (at == std::string::npos) return {};
    const std::size_t begin = at + 2 + name.size() + 2;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
  // The data of each server-sent event.
  [[nodiscard]] std::vector<std::string> events() const {
    std::vector<std::string> result;
    std::size_t at = 0;
    while ((at = body.find("data: ", at)) != std::string::npos) {
      const std::size_t end = body.find("\n\n", at);
      result.push_back(body.substr(at + 6, end - at - 6));
      at = end;
    }
    return result;
  }
};

class HttpClient {
 public:
  explicit HttpClient(int port, int receive_buffer = 0) {
    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    if (receive_buffer > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_open_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~HttpClient() { close(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  [[nodiscard]] bool is_open() const { return is_open_; }

  void send_raw(const std::string& bytes) {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<std::size_t>(n);
    }
  }

  static std::string request_text(const std::string& method, const std::string& path,
                                  const std::string& body, const std::string& headers = {}) {
    std::string text = method + " " + path + " HTTP/1.1\r\nHost: test\r\n" + headers;
    if (!body.empty() || method == "POST") {
      text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n";
    }
    return text + "\r\n" + body;
  }

  HttpResponse request(const std::string& method, const std::string& path,
                       const std::string& body = {}, const std::string& headers = {}) {
    send_raw(request_text(method, path, body, headers));
    return read_response();
  }
  HttpResponse post(const std::string& path, const nlohmann::json& body) {
    return request("POST", path, body.dump());
  }

  // More bytes into the buffer; false at the end, on an error or after timeout_ms.
  bool read_more(int timeout_ms = 20'000) {
    pollfd p{fd_, POLLIN, 0};
    if (poll(&p, 1, timeout_ms) <= 0) return false;
    char bytes[16384];
    const ssize_t n = recv(fd_, bytes, sizeof bytes, 0);
    if (n <= 0) return false;
    buffer_.append(bytes, static_cast<std::size_t>(n));
    return true;
  }
  // Whether the server has closed within the time; what it sent before is dropped.
  bool wait_closed(int timeout_ms) {
    for (;;) {
      pollfd p{fd_, POLLIN, 0};
      if (poll(&p, 1, timeout_ms) <= 0) return false;
      char bytes[4096];
      if (recv(fd_, bytes, sizeof bytes, 0) <= 0) return true;
    }
  }

  HttpResponse read_response() {
    HttpResponse response;
    std::size_t end = 0;
    do {  // skips 100 Continue
      while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
        if (!read_more()) return response;
      }
      response.head = buffer_.substr(0, end + 2);
      buffer_.erase(0, end + 4);
      response.status = std::atoi(response.head.c_str() + 9);
    } while (response.status == 100);
    if (response.head.find("Transfer-Encoding: chunked") != std::string::npos) {
      read_chunks(response);
    } else if (const std::string length = response.header("Content-Length"); !length.empty()) {
      const auto size = static_cast<std::size_t>(std::atoll(length.c_str()));
      while (buffer_.size() < size && read_more()) {
      }
      response.body = buffer_.substr(0, size);
      buffer_.erase(0, size);
    } else {
      while (read_more()) {
      }
      response.body = std::exchange(buffer_, {});
    }
    return response;
  }

 private:
  void read_chunks(HttpResponse& response) {
    for (;;) {
      std::size_t line = 0;
      while ((line = buffer_.find("\r\n")) == std::string::npos) {
        if (!read_more()) return;
      }
      const std::size_t size = std::strtoull(buffer_.c_str(), nullptr, 16);
      while (buffer_.size() < line + 2 + size + 2) {
        if (!read_more()) return;
      }
      response.body += buffer_.substr(line + 2, size);
      buffer_.erase(0, line + 2 + size + 2);
      if (size == 0) return;
    }
  }

  int fd_ = -1;
  bool is_open_ = false;
  std::string buffer_;
};

}  // namespace splitwave::serve::test
