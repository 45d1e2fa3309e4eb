// What to deploy. Owns the decision rules over a Verdict: the load-mix winner, the no-regression
// rule, ties to the incumbent, ranges of unmeasured concurrency. Pure; called by the record and the
// report.
#pragma once

#include <string>
#include <vector>

#include "experiment/run_record.h"
#include "experiment/run_spec.h"
#include "experiment/verdict.h"

namespace splitwave::experiment {

// Concurrencies first..last, both included.
struct Range {
  int first = 0;
  int last = 0;
  bool operator==(const Range&) const = default;
};

enum class DecisionKind : std::uint8_t {
  keep,          // the incumbent stays
  adopt,         // the arm everywhere from the least to the largest point
  adopt_ranges,  // the arm in `ranges` alone, the incumbent elsewhere
};

struct RangeOffer {
  int arm = 0;
  std::vector<Range> ranges;
};

struct Decision {
  DecisionKind kind = DecisionKind::keep;
  int arm = 0;  // the incumbent, or the winner
  std::vector<Range> ranges;
  std::string reason;              // one sentence
  std::vector<RangeOffer> offers;  // arms that lost overall and are faster in a range
};

// The winner is the arm with the highest score among those whose score's interval lies above 0 and
// that rule out a regression at every measured point; a planted arm never wins. It is offered at an
// unmeasured concurrency only where both measured neighbours are FASTER or SAME, one of them
// FASTER, and the planner's model does not predict a loss (or the launches are the same).
[[nodiscard]] Decision decide(const RunSpec& run, const RunRecord& record, const Verdict& verdict);

[[nodiscard]] const char* name_of(DecisionKind kind);

// "1..3, 8..96"
[[nodiscard]] std::string to_string(const std::vector<Range>& ranges);

}  // namespace splitwave::experiment
