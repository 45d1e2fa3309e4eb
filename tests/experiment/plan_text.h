// A valid experiment.toml for tests, and the means to damage it at one place.
#pragma once

#include <stdexcept>
#include <string>

namespace splitwave::experiment::test {

inline std::string plan_text() {
  return R"toml(version = 1
question = "q"
why = "w"
rival = "r"
rollback = "SPLITWAVE_PLAN="
metric = "step_us"
direction = "lower"
minimum_effect_percent = 2.0
points = [1, 3]
gates = ["invariance", "accuracy", "repeat"]

[[arm]]
name = "incumbent"
what = "the planner's choice"

[[arm]]
name = "free"
what = "free splits"
plan = "mode=free,target_ctas=64"

[workload]
model = "v4-flash"
backend = "cpu"
seed = 7
[[workload.batch]]
point = 1
contexts = [500]
[[workload.batch]]
point = 3
contexts = [100, 2000, 0]

[load_mix]
weights = [1, 3]

[stopping]
rule = "fixed"
rounds = 8

[[projection]]
arm = "free"
at = 3
percent = [-2, 0, 4.5]
derivation = "d"

[falsified_by]
text = "f"
arm = "free"
at = "mix"
below_percent = 0.0
)toml";
}

// The text with its first `from` replaced; throws when there is none, so that no test edits
// nothing.
inline std::string edited(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("edited: no '" + from + "'");
  return text.replace(at, from.size(), to);
}

}  // namespace splitwave::experiment::test
