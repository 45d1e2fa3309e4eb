// The rule, and nothing about any device.
#include "plan/tuning_table.h"

#include <algorithm>
#include <iterator>

namespace splitwave {
namespace {

std::string at(int batch) { return "batch " + std::to_string(batch); }

TuningDecision keep(const TuningSeries& series, std::string reason) {
  return {series.incumbent, false, 0, "kept " + std::string(series.incumbent) + ": " + reason};
}

}  // namespace

TuningDecision decide_tuned(const TuningSeries& series, int batch,
                            const std::function<bool(std::string_view challenger)>& model_prefers) {
  const auto points = series.points;
  const auto above = std::lower_bound(points.begin(), points.end(), batch,
                                      [](const TuningPoint& p, int b) { return p.batch < b; });
  const std::string record = " (" + std::string(series.provenance) + ")";
  if (above != points.end() && above->batch == batch) {
    if (above->is_win) {
      return {above->winner, true, above->winner_us,
              "measured at " + at(batch) + ": " + std::string(above->winner) + " beats " +
                  std::string(series.incumbent) + record};
    }
    return {
        series.incumbent, true, above->incumbent_us,
        "measured at " + at(batch) + ": nothing beats " + std::string(series.incumbent) + record};
  }
  if (points.empty()) return keep(series, "nothing is measured");
  if (above == points.begin() || above == points.end()) {
    return keep(series, at(batch) + " is unmeasured and has a measured neighbour on one side only" +
                            record);
  }
  const TuningPoint& below = *std::prev(above);
  const std::string neighbours = at(below.batch) + " and " + at(above->batch);
  if (!below.is_win || !above->is_win || below.winner != above->winner) {
    return keep(series, at(batch) + " is unmeasured and its neighbours " + neighbours +
                            " do not agree on another variant" + record);
  }
  if (!model_prefers(below.winner)) {
    return keep(series, at(batch) + " is unmeasured; the neighbours " + neighbours + " prefer " +
                            std::string(below.winner) + " but the model does not" + record);
  }
  return {below.winner, false, 0,
          at(batch) + " is unmeasured; both neighbours (" + neighbours + ") and the model prefer " +
              std::string(below.winner) + record};
}

}  // namespace splitwave
