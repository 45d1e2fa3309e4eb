// Many HTTP requests from one thread. Owns HttpLoop, a libcurl multi handle whose requests report
// body bytes as they arrive and their end exactly once. Called by the load generator and the
// canary; knows nothing of completions or JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "splitwave/status.h"

namespace splitwave::load {

// Bodies longer than this are cut off as an error: a server gone wrong must not fill the memory.
inline constexpr std::size_t k_response_bytes_max = std::size_t{64} << 20;

struct HttpRequest {
  std::string url;
  std::string body;  // JSON; empty: GET
  std::string api_key;
  double timeout_s = 600;
};

struct HttpEnd {
  int status = 0;     // 0: no answer
  std::string error;  // of the transport; empty when an answer was read to its end
};

class HttpLoop {
 public:
  HttpLoop();
  ~HttpLoop();
  HttpLoop(const HttpLoop&) = delete;
  HttpLoop& operator=(const HttpLoop&) = delete;

  using OnBody = std::function<void(std::string_view bytes)>;
  using OnEnd = std::function<void(const HttpEnd& end)>;

  // Starts a request; the callbacks are called from turn(). on_end may start further requests.
  void start(HttpRequest request, OnBody on_body, OnEnd on_end);
  // Moves every request on, waiting at most wait_ms for something to happen.
  void turn(int wait_ms);
  // Ends every request without a call of its on_end.
  void abandon();

  [[nodiscard]] int active() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// One request and its whole body. environment: no answer; the status is for the caller to judge.
struct HttpResponse {
  int status = 0;
  std::string body;
};
[[nodiscard]] Expected<HttpResponse> http_fetch(const HttpRequest& request);

}  // namespace splitwave::load
