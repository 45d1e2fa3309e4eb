// Edit distance over short names. Owns the bound on the text that is compared: a longer text is not
// a typing mistake, and the table stays small.
#include "base/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace splitwave {
namespace {

constexpr std::size_t k_name_length_max = 64;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Optimal string alignment: insert, delete, replace, swap two neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t columns = b.size() + 1;
  std::vector<std::size_t> table((a.size() + 1) * columns);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& {
    return table[i * columns + j];
  };
  for (std::size_t i = 0; i <= a.size(); ++i) at(i, 0) = i;
  for (std::size_t j = 0; j <= b.size(); ++j) at(0, j) = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + replace});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
          lower(a[i - 2]) == lower(b[j - 1])) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return at(a.size(), b.size());
}

}  // namespace

std::string_view nearest_name(std::string_view text, std::span<const std::string_view> candidates) {
  std::string_view best;
  if (text.empty() || text.size() > k_name_length_max) return best;
  std::size_t best_distance = 0;
  for (const std::string_view candidate : candidates) {
    if (candidate.size() > k_name_length_max) continue;
    const std::size_t distance = edit_distance(text, candidate);
    const std::size_t allowed =
        std::max<std::size_t>(1, std::max(text.size(), candidate.size()) / 3);
    if (distance > allowed) continue;
    if (best.empty() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view text, std::span<const std::string_view> candidates) {
  const std::string_view near = nearest_name(text, candidates);
  return near.empty() ? std::string() : " (did you mean " + std::string(near) + "?)";
}

std::string join_names(std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

}  // namespace splitwave
