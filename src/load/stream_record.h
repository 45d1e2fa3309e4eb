// One streamed completion, timed. Owns StreamRecord and its reading from SSE events. Tokens come
// from the usage that the server reports, never from counting events: an event may carry several
// tokens or none. Called by the load generator.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "load/http_loop.h"
#include "load/sse.h"

namespace splitwave::load {

struct StreamRecord {
  double start_s = 0;            // when the request was sent
  double end_s = 0;              // when its end was read
  std::vector<double> events_s;  // arrival of each event that carries output
  int prompt_tokens = 0;
  int cached_tokens = 0;
  int output_tokens = 0;
  std::string error;  // empty: complete, with usage and a finish reason

  [[nodiscard]] bool ok() const { return error.empty(); }
  [[nodiscard]] double first_s() const { return events_s.front(); }
  [[nodiscard]] double last_s() const { return events_s.back(); }
};

class StreamReader {
 public:
  explicit StreamReader(double start_s) { record_.start_s = start_s; }

  void on_body(std::string_view bytes, double now_s);
  // The record, once the request ended.
  [[nodiscard]] StreamRecord finish(const HttpEnd& end, double now_s);

 private:
  void on_event(const std::string& data, double now_s);

  StreamRecord record_;
  SseReader sse_;
  std::string first_bytes_;  // of the body, for the message of an error status
  bool has_usage_ = false;
  bool has_finish_ = false;
};

}  // namespace splitwave::load
