// Ranks arms of the free rule by predicted time. Owns what counts as a tie between predictions and
// the words for it. Called by `splitwave plan` when several target_ctas are given.
#pragma once

#include <string>
#include <vector>

namespace splitwave {

struct RankedTarget {
  int target_ctas = 0;
  double predicted_us = 0;
};

struct TargetRanking {
  int batch = 0;
  std::vector<RankedTarget> order;  // the least predicted time first; equals as they were given
  bool is_tie = false;              // the first two are closer than the model can tell
  std::string text;                 // "512 above 768 (-12.3 %)", "a tie: 512, 768 (-1.2 %)"
};

// At least one target.
[[nodiscard]] TargetRanking rank_targets(int batch, std::vector<RankedTarget> targets);

}  // namespace splitwave
