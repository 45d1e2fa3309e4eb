// The verdict on one point.
#include "stats/effect.h"

#include <cmath>

#include "base/check.h"

namespace splitwave::stats {

const char* effect_name(Effect effect) {
  switch (effect) {
    case Effect::faster:
      return "FASTER";
    case Effect::slower:
      return "SLOWER";
    case Effect::same:
      return "SAME";
    case Effect::undecided:
      break;
  }
  return "UNDECIDED";
}

double effect_margin(double min_effect) {
  SPLITWAVE_CHECK(min_effect >= 0, "a negative minimum effect");
  return std::log1p(min_effect);
}

Effect judge_effect(const Interval& log_ratio, double adjusted_p, double alpha, double min_effect) {
  const double margin = effect_margin(min_effect);
  if (log_ratio.low >= -margin && log_ratio.high <= margin) return Effect::same;
  if (adjusted_p > alpha) return Effect::undecided;
  if (log_ratio.low > 0) return Effect::faster;
  if (log_ratio.high < 0) return Effect::slower;
  return Effect::undecided;
}

bool rules_out_regression(const Interval& log_ratio, double min_effect) {
  return log_ratio.low > -effect_margin(min_effect);
}

}  // namespace splitwave::stats
