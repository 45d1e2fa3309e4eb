// The order of measurements. Owns make_round: which arm runs when, at which point, in each round. A
// pure function of the seed, so that a dry run prints what a run will do and a record can be
// checked against it. Called by the runner and by --dry-run.
//
// A round visits every point, in an order drawn anew. At a point the arms run in a drawn order and
// then in the reverse of it (A B C C B A): a drift that is linear over the visit cancels in every
// pair, and each arm is measured twice. The incumbent runs twice as two separate arms; their
// difference is the A/A pair, the noise floor. Over every arms + 1 rounds each slot comes first
// equally often at each point (cyclic rotations of one drawn order); odd rounds run the others
// backwards.
#pragma once

#include <cstdint>
#include <vector>

namespace splitwave::experiment {

// A slot is an arm's place in the schedule: slot 0 is the incumbent, slot 1 the incumbent again
// (the A/A pair), slot i + 1 is arm i for i >= 1.
[[nodiscard]] constexpr int slot_count(int arms) { return arms + 1; }
[[nodiscard]] constexpr int arm_of_slot(int slot) { return slot <= 1 ? 0 : slot - 1; }

struct Visit {
  int point = 0;
  std::vector<int> slots;  // a palindrome: each slot twice
};

struct Round {
  int index = 0;
  std::vector<Visit> visits;
};

[[nodiscard]] Round make_round(std::uint64_t seed, int index, int points, int arms);

// Which of a point's batches a round measures: every slot of the round gets the same one.
[[nodiscard]] constexpr int batch_of_round(int round, int batches) { return round % batches; }

}  // namespace splitwave::experiment
