// Stop strings in a stream of text. Owns StopMatcher: gives text out as soon as no stop string can
// still begin in it. What it gives out over all calls does not depend on where the text was cut.
// Called by the completion sink.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace splitwave::serve {

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Appends what is safe to *visible. True: a stop string is complete, the one that ends first;
  // nothing from its first byte on is ever given out.
  [[nodiscard]] bool push(std::string_view text, std::string* visible);
  // Before min_tokens nothing stops: the text, and what was held back, goes out unlooked at.
  void pass(std::string_view text, std::string* visible);
  // The stream ended without a stop string.
  void finish(std::string* visible) { pass({}, visible); }

 private:
  std::vector<std::string> stops_;
  std::string held_;
};

}  // namespace splitwave::serve
