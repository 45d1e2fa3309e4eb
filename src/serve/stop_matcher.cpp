// A few short strings against a short buffer: plain search.
#include "serve/stop_matcher.h"

#include <algorithm>

namespace splitwave::serve {

bool StopMatcher::push(std::string_view text, std::string* visible) {
  held_ += text;
  std::size_t begin = std::string::npos;
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const std::size_t stop_end = at + stop.size();
    if (stop_end < end || (stop_end == end && at < begin)) {
      begin = at;
      end = stop_end;
    }
  }
  if (end != std::string::npos) {
    visible->append(held_, 0, begin);
    held_.clear();
    return true;
  }
  // Keep the longest tail that is the beginning of a stop string.
  std::size_t keep = 0;
  for (const std::string& stop : stops_) {
    const std::size_t most = std::min(stop.size() - 1, held_.size());
    for (std::size_t n = most; n > keep; --n) {
      if (held_.compare(held_.size() - n, n, stop, 0, n) == 0) {
        keep = n;
        break;
      }
    }
  }
  visible->append(held_, 0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return false;
}

void StopMatcher::pass(std::string_view text, std::string* visible) {
  *visible += held_;
  held_.clear();
  *visible += text;
}

}  // namespace splitwave::serve
