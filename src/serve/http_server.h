// HTTP/1.1 over TCP: connections, limits, timeouts, server-sent events, and nothing of the API.
// Owns the listener and its threads; Boost.Beast stays inside http_server.cpp and
// http_connection.cpp. A request goes to the handler once complete; the answer comes back through
// its Responder from any thread. A peer that vanishes, reads too slowly or trickles its request
// costs one connection for a bounded time, never the process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "splitwave/status.h"

namespace splitwave::serve {

struct HttpLimits {
  std::int64_t body_bytes_max = 4 << 20;
  int header_bytes_max = 16 << 10;
  int connections_max = 1024;
  int header_s = 10;                        // to send a request's header
  int body_s = 30;                          // to send its body
  int idle_s = 75;                          // between requests of a connection
  int write_s = 30;                         // for a peer to take what was written
  std::int64_t output_bytes_max = 4 << 20;  // waiting for a slow reader; more ends it
};

struct HttpRequest {
  std::string method;
  std::string target;  // path and query as sent
  std::string path;    // up to '?'
  std::string authorization;
  std::string content_type;
  std::string body;
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// The answer to one request; thread-safe. Either send() once, or begin_stream(), write()..., end().
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void send(int status, std::string_view content_type, std::string body,
                    HttpHeaders headers = {}) = 0;
  virtual void begin_stream(std::string_view content_type) = 0;
  virtual void write(std::string text) = 0;
  virtual void end() = 0;
  // Runs once if the peer goes before the answer is complete; at once if it already has. From any
  // thread; must not block.
  virtual void on_closed(std::function<void()> callback) = 0;
};

using HttpHandler = std::function<void(HttpRequest, std::shared_ptr<Responder>)>;

// An error before there is a request (too large, malformed, too many): the body to answer with.
using HttpErrorBody = std::function<std::string(int status, const std::string& message)>;

struct HttpOptions {
  std::string address = "127.0.0.1";
  int port = 8000;  // 0: any free one
  int threads = 2;
  HttpLimits limits;
  HttpErrorBody error_body;
  std::function<void(int status)> on_response;  // for metrics; may be empty
};

class HttpServer {
 public:
  // Binds and starts to serve. environment when the address cannot be bound.
  [[nodiscard]] static Expected<std::unique_ptr<HttpServer>> start(const HttpOptions& options,
                                                                   HttpHandler handler);
  virtual ~HttpServer() = default;
  [[nodiscard]] virtual int port() const = 0;
  [[nodiscard]] virtual int connections() const = 0;
  // New connections are refused; those that are open stay.
  virtual void stop_listening() = 0;
  // Waits until every answer is out, at most until seconds have passed, then closes everything.
  virtual void stop(double seconds) = 0;
};

}  // namespace splitwave::serve
