// Measuring arms in turn, so that whatever drifts hits all of them alike. Owns the order of
// measurements and the table of what came out; knows nothing of what an arm is. Called by the
// experiment runner, the bench (a peer is an arm) and `tune`.
//
// A round visits every point once, in random order. At a point the arms run in a random order and
// then in the mirrored one: A B B A for two arms, C A B B A C for three. Every arm's mean position
// is then the same, so a linear drift cancels in the mean of its two visits. Rounds come in pairs:
// the second of a pair visits the points backwards and starts each with the opposite order of arms,
// so that first places are balanced exactly.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "splitwave/status.h"

namespace splitwave::measure {

struct InterleaveOptions {
  int arms = 2;    // the incumbent is arm 0 by convention; an A/A copy is one more arm
  int points = 1;  // batch sizes, concurrencies
  int rounds = 10;
  std::uint64_t seed = 1;
};

struct Visit {
  int point = 0;
  int arm = 0;
  bool mirrored = false;  // the second of the arm's two visits in this round
};

// The order of one round: 2 * arms * points visits. A function of the options and the round alone,
// so a dry run can print it.
[[nodiscard]] std::vector<Visit> round_order(const InterleaveOptions& options, int round);

// One arm's two visits at one point of one round, in the caller's unit of time.
struct Pair {
  double first = 0;
  double second = 0;
  [[nodiscard]] double mean() const { return 0.5 * (first + second); }
};

class RoundTable {
 public:
  RoundTable(int points, int arms) : points_(points), arms_(arms) {}

  [[nodiscard]] int points() const { return points_; }
  [[nodiscard]] int arms() const { return arms_; }
  [[nodiscard]] int rounds() const {
    return static_cast<int>(cells_.size() / (static_cast<std::size_t>(points_) * arms_));
  }

  [[nodiscard]] const Pair& at(int round, int point, int arm) const;

  // mean() by round, in round order: what a paired analysis takes. Rounds named in `dropped`
  // (ascending) are left out, for every point and arm alike.
  [[nodiscard]] std::vector<double> times(int point, int arm,
                                          const std::vector<int>& dropped = {}) const;

  // Appends one round: points * arms pairs, the arm fastest.
  void append(const std::vector<Pair>& round);

 private:
  int points_;
  int arms_;
  std::vector<Pair> cells_;
};

enum class StopReason { all_rounds, caller, error };

struct InterleaveHooks {
  // Runs one measurement and returns its time, > 0. An error ends the run.
  std::function<Expected<double>(const Visit&)> measure = nullptr;
  // Before a round: log clocks, wait for a cool device. An error ends the run. Optional.
  std::function<Status(int round)> before_round = nullptr;
  // After a complete round: true goes on, false stops (a sequential rule, Ctrl-C). Optional.
  std::function<bool(int round, const RoundTable& so_far)> after_round = nullptr;
};

struct InterleaveResult {
  RoundTable table;  // complete rounds only: a round cut short leaves no cell behind
  StopReason reason = StopReason::all_rounds;
  std::optional<Error> error;
};

// bad_input when a count is not positive or a measurement is not a positive finite number.
[[nodiscard]] InterleaveResult measure_interleaved(const InterleaveOptions& options,
                                                   const InterleaveHooks& hooks);

}  // namespace splitwave::measure
