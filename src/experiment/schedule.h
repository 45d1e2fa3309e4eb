// Which arms take which places in a run. Owns the slots and the run's cost: the order within a
// round is measure/interleave.h's, a pure function of the seed, so that --dry-run prints what a run
// will do. Called by the runner and by `ab run --dry-run`.
//
// A slot is a place that is measured: slot 0 is the incumbent, slot 1 the incumbent again (their
// difference is the A/A pair, the noise floor), slot i + 1 is arm i. An arm that a gate has ended
// has no place; the others keep their slot numbers.
#pragma once

#include <string>
#include <vector>

#include "experiment/run_spec.h"
#include "measure/interleave.h"

namespace splitwave::experiment {

[[nodiscard]] constexpr int slot_count(int arms) { return arms + 1; }
[[nodiscard]] constexpr int arm_of_slot(int slot) { return slot <= 1 ? 0 : slot - 1; }
[[nodiscard]] constexpr int slot_of_arm(int arm) { return arm == 0 ? 0 : arm + 1; }

// Which of a point's batches a round measures: every slot of the round gets the same one.
[[nodiscard]] constexpr int batch_of_round(int round, std::size_t batches) {
  return static_cast<int>(static_cast<std::size_t>(round) % batches);
}

struct Schedule {
  std::vector<int> slots;            // measured slots, ascending
  measure::InterleaveOptions order;  // its arms are indices into slots
};

// arm_ended: one an arm, nonzero for arms without a place; empty: none has ended.
[[nodiscard]] Schedule make_schedule(const RunSpec& run,
                                     const std::vector<std::uint8_t>& arm_ended = {});

// "round 0: C8: free incumbent A/A | A/A incumbent free; C1: ..." for people.
[[nodiscard]] std::string describe_round(const RunSpec& run, const Schedule& schedule, int round);

// Seconds that all rounds take, from one sample's time at each point.
[[nodiscard]] double rounds_cost_s(const RunSpec& run, const Schedule& schedule,
                                   const std::vector<double>& sample_us);

}  // namespace splitwave::experiment
