// The grammar of the WHATWG's "server-sent events", without ids, names and retry times.
#include "load/sse.h"

#include <utility>

namespace splitwave::load {

void SseReader::push(std::string_view bytes, std::vector<std::string>* events) {
  for (const char c : bytes) {
    const bool after_cr = std::exchange(after_cr_, c == '\r');
    if (c == '\n' && after_cr) continue;  // the second half of CRLF
    if (c == '\n' || c == '\r') {
      take_line(events);
    } else {
      line_ += c;
    }
  }
}

void SseReader::take_line(std::vector<std::string>* events) {
  const std::string line = std::exchange(line_, {});
  if (line.empty()) {
    if (has_data_) events->push_back(std::exchange(data_, {}));
    has_data_ = false;
    return;
  }
  constexpr std::string_view field = "data:";
  if (!line.starts_with(field)) return;
  std::string_view value = std::string_view(line).substr(field.size());
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += value;
  has_data_ = true;
}

}  // namespace splitwave::load
