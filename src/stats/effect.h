// From an interval to a verdict on one point. Owns Effect and the rule that yields it: evidence
// moves a point away from UNDECIDED, nothing else does. Works on paired log ratios, positive where
// the arm is faster. Called by the experiment's verdict; the decision across points is
// src/experiment's.
#pragma once

#include "stats/bootstrap.h"

namespace splitwave::stats {

enum class Effect { undecided, faster, slower, same };

[[nodiscard]] const char* effect_name(Effect effect);  // "UNDECIDED", "FASTER", "SLOWER", "SAME"

// ln(1 + min_effect): the margin in log ratios, the same in both directions.
[[nodiscard]] double effect_margin(double min_effect);

// SAME: the interval lies within the margin (equivalence by confidence interval, Schuirmann 1987),
// even where it leaves 0 out: a difference too small to matter. FASTER or SLOWER: adjusted_p is at
// most alpha and the interval lies on one side of 0. Anything else is UNDECIDED. min_effect is a
// fraction: 0.01 for 1 %.
[[nodiscard]] Effect judge_effect(const Interval& log_ratio, double adjusted_p, double alpha,
                                  double min_effect);

// No-regression: even the interval's low end is not slower than the minimum effect. Build the
// interval at simultaneous_level() over the points, so that it holds at all of them.
[[nodiscard]] bool rules_out_regression(const Interval& log_ratio, double min_effect);

}  // namespace splitwave::stats
