// Stop strings do not depend on where the text was cut.
#include "serve/stop_matcher.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/random.h"

namespace splitwave::serve {
namespace {

struct Outcome {
  std::string visible;
  bool stopped = false;
  bool operator==(const Outcome&) const = default;
};

Outcome run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  Outcome o;
  for (const std::string& piece : pieces) {
    if (matcher.push(piece, &o.visible)) {
      o.stopped = true;
      return o;
    }
  }
  matcher.finish(&o.visible);
  return o;
}

// The shortest beginning of the text that ends in a stop string, tried byte by byte.
Outcome by_definition(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      if (std::string_view(text).substr(0, end).ends_with(stop)) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBeginAStopString) {
  StopMatcher matcher({"STOP"});
  std::string visible;
  EXPECT_FALSE(matcher.push("abcST", &visible));
  EXPECT_EQ(visible, "abc");
  EXPECT_FALSE(matcher.push("xS", &visible));
  EXPECT_EQ(visible, "abcSTx");
  EXPECT_TRUE(matcher.push("TOPmore", &visible));
  EXPECT_EQ(visible, "abcSTx");
}

RC_GTEST_PROP(StopMatcher, EqualsItsDefinitionHoweverTheTextIsCut, (std::uint64_t seed)) {
  Rng rng(seed);
  const auto word = [&](std::uint32_t most) {
    std::string s;
    const std::uint32_t size = 1 + rng.below(most);
    for (std::uint32_t i = 0; i < size; ++i) s += static_cast<char>('a' + rng.below(2));
    return s;
  };
  std::vector<std::string> stops;
  for (std::uint32_t i = 0; i <= rng.below(3); ++i) stops.push_back(word(5));
  std::vector<std::string> pieces;
  std::string text;
  for (int i = 0; i < 6; ++i) {
    pieces.push_back(word(4));
    text += pieces.back();
  }
  const Outcome expected = by_definition(stops, text);
  RC_ASSERT(run(stops, pieces) == expected);
  RC_ASSERT(run(stops, {text}) == expected);
}

}  // namespace
}  // namespace splitwave::serve
