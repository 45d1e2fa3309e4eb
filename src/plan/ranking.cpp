// Order, tie, words.
#include "plan/ranking.h"

#include <algorithm>
#include <cstdio>

#include "base/check.h"
#include "plan/planner.h"

namespace splitwave {

TargetRanking rank_targets(int batch, std::vector<RankedTarget> targets) {
  SPLITWAVE_CHECK(!targets.empty(), "nothing to rank");
  TargetRanking ranking{batch, std::move(targets), false, ""};
  std::stable_sort(
      ranking.order.begin(), ranking.order.end(),
      [](const RankedTarget& a, const RankedTarget& b) { return a.predicted_us < b.predicted_us; });
  const RankedTarget& first = ranking.order.front();
  if (ranking.order.size() == 1) {
    ranking.text = std::to_string(first.target_ctas);
    return ranking;
  }
  const RankedTarget& second = ranking.order[1];
  const double ahead =
      second.predicted_us > 0 ? 1.0 - first.predicted_us / second.predicted_us : 0.0;
  ranking.is_tie = ahead <= k_model_tie;
  std::string names;
  for (const RankedTarget& t : ranking.order) {
    if (!names.empty()) names += ranking.is_tie ? ", " : " above ";
    names += std::to_string(t.target_ctas);
  }
  char percent[32];
  std::snprintf(percent, sizeof percent, " (-%.1f %%)", ahead * 100);
  ranking.text = (ranking.is_tie ? "a tie: " : "") + names + percent;
  return ranking;
}

}  // namespace splitwave
