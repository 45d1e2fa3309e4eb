// The plan that `ab new` writes. tests/experiment parses it: it must be valid as it stands.
#include "experiment/manifest.h"

namespace splitwave::experiment {

std::string manifest_template() {
  return R"toml(# The plan of one experiment. Commit it before the run: `ab run` looks it up.
# Fields: docs/experiments.md. Everything in quotes below is to be replaced.
version = 1
question = "Does a head block of 32 raise decode throughput at C1..C96?"
why = "The mechanism by which it should: what is saved, and at which batch sizes."
rival = "What else could explain such a result, and how this plan tells the two apart."
rollback = "SPLITWAVE_PLAN=  (the planner's choice, as before)"

metric = "step_us"             # attention time of a decode step: sum of layers x time per call
direction = "lower"
minimum_effect_percent = 2.0   # smaller differences do not matter
points = [1, 3, 6, 12, 24, 48, 64, 80, 96]   # some between each two powers of two
gates = ["invariance", "accuracy", "repeat"]

[[arm]]                        # the incumbent comes first; it runs twice: the A/A pair
name = "incumbent"
what = "the planner's choice"
plan = ""

[[arm]]
name = "block-heads-32"
what = "32 heads an item"
plan = "block_heads=32"        # what SPLITWAVE_PLAN would hold; variant = "NAME" picks a kernel

[workload]
model = "v4-flash"             # v4-flash, v4-pro, v32
backend = "auto"               # auto, cpu, cuda
trace = "../../bench/traces/azure-llm-2023-code.csv"
batches = 8                    # decode steps drawn from the replay, per point
seed = 1
locality = "random_pages"      # random_pages, contiguous, shared
cache = "cold"                 # cold: each call reads what the last-level cache no longer holds
execution = "eager"            # eager, graph

[load_mix]                     # how much each point counts: weights = [...] or the trace's own mix
from_trace = true
rate_scale = 20.0              # arrivals this many times as fast as in the trace
fixed_ms = 18.0                # step time = fixed + marginal x batch, for the mix alone
marginal_ms = 1.05

[stopping]
rule = "fixed"                 # fixed, or anytime: an anytime-valid test, at most `rounds`
rounds = 40

[[projection]]                 # at = "mix" or a point; change of throughput in percent
arm = "block-heads-32"
at = "mix"
percent = [0.0, 3.0, 6.0]      # low, central, high
derivation = "The arithmetic that leads to these numbers."

[falsified_by]
text = "The claim: it costs nothing over the load mix."   # or above_percent
arm = "block-heads-32"
at = "mix"
below_percent = 0.0
)toml";
}

}  // namespace splitwave::experiment
