// "Did you mean": the known name closest to a mistyped one. Owns nearest_name; called wherever a
// name from the outside (an override's key, a device, a format) is looked up in a fixed list and
// refused.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace splitwave {

// The candidate with the least edit distance to text (transpositions count once, case is ignored),
// or "" when none is close: at most a third of the longer name may differ, and at least one edit is
// always allowed. Ties go to the earlier candidate.
[[nodiscard]] std::string_view nearest_name(std::string_view text,
                                            std::span<const std::string_view> candidates);

// " (did you mean NAME?)", or "" when nothing is close: the tail of a refusal.
[[nodiscard]] std::string did_you_mean(std::string_view text,
                                       std::span<const std::string_view> candidates);

// "a, b, c": the list of what works.
[[nodiscard]] std::string join_names(std::span<const std::string_view> names);

}  // namespace splitwave
