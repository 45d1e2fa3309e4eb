// The order of a round and the loop over rounds.
#include "measure/interleave.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>

#include "base/check.h"
#include "base/random.h"

namespace splitwave::measure {
namespace {

std::vector<int> shuffled(int count, Rng& rng) {
  std::vector<int> items(count);
  std::iota(items.begin(), items.end(), 0);
  rng.shuffle(std::span(items));
  return items;
}

InterleaveResult stopped(InterleaveResult result, Error error) {
  result.reason = StopReason::error;
  result.error = std::move(error);
  return result;
}

// One round into `cells`; an error of the caller's measurement, or a value that is no time.
Status run_round(const std::vector<Visit>& order, const InterleaveHooks& hooks, int arms,
                 std::vector<Pair>& cells) {
  for (const Visit& visit : order) {
    Expected<double> time = hooks.measure(visit);
    if (!time) return time.error();
    if (!(std::isfinite(*time) && *time > 0)) {
      return bad_input("point " + std::to_string(visit.point) + ", arm " +
                       std::to_string(visit.arm) + ": a measurement gave " + std::to_string(*time) +
                       "; a time must be positive and finite");
    }
    Pair& pair = cells[static_cast<std::size_t>(visit.point) * arms + visit.arm];
    (visit.mirrored ? pair.second : pair.first) = *time;
  }
  return {};
}

}  // namespace

std::vector<Visit> round_order(const InterleaveOptions& options, int round) {
  SPLITWAVE_CHECK(options.arms > 0 && options.points > 0 && round >= 0, "an empty round");
  // Both rounds of a pair draw from the pair's own stream; the second one turns the order round.
  Rng rng(options.seed, static_cast<std::uint64_t>(round / 2) + 1);
  std::vector<Visit> order;
  order.reserve(static_cast<std::size_t>(2) * options.arms * options.points);
  for (const int point : shuffled(options.points, rng)) {
    std::vector<int> arms = shuffled(options.arms, rng);
    if (round % 2 == 1) std::reverse(arms.begin(), arms.end());
    std::vector<Visit> visits;
    for (const int arm : arms) visits.push_back({point, arm, false});
    std::reverse(arms.begin(), arms.end());
    for (const int arm : arms) visits.push_back({point, arm, true});
    const auto at = round % 2 == 1 ? order.begin() : order.end();
    order.insert(at, visits.begin(), visits.end());
  }
  return order;
}

const Pair& RoundTable::at(int round, int point, int arm) const {
  SPLITWAVE_CHECK(
      round >= 0 && round < rounds() && point >= 0 && point < points_ && arm >= 0 && arm < arms_,
      "a cell outside the table of rounds");
  return cells_[(static_cast<std::size_t>(round) * points_ + point) * arms_ + arm];
}

std::vector<double> RoundTable::times(int point, int arm, const std::vector<int>& dropped) const {
  std::vector<double> result;
  for (int round = 0; round < rounds(); ++round) {
    if (std::binary_search(dropped.begin(), dropped.end(), round)) continue;
    result.push_back(at(round, point, arm).mean());
  }
  return result;
}

void RoundTable::append(const std::vector<Pair>& round) {
  SPLITWAVE_CHECK(round.size() == static_cast<std::size_t>(points_) * arms_,
                  "a round with missing cells");
  cells_.insert(cells_.end(), round.begin(), round.end());
}

InterleaveResult measure_interleaved(const InterleaveOptions& options,
                                     const InterleaveHooks& hooks) {
  InterleaveResult result{RoundTable(std::max(1, options.points), std::max(1, options.arms)),
                          StopReason::all_rounds,
                          {}};
  if (options.arms < 1 || options.points < 1 || options.rounds < 1) {
    return stopped(std::move(result),
                   bad_input("arms, points and rounds must be at least 1; got " +
                             std::to_string(options.arms) + ", " + std::to_string(options.points) +
                             ", " + std::to_string(options.rounds)));
  }
  SPLITWAVE_CHECK(hooks.measure != nullptr, "nothing to measure with");
  for (int round = 0; round < options.rounds; ++round) {
    if (hooks.before_round) {
      if (Status ready = hooks.before_round(round); !ready) {
        return stopped(std::move(result), ready.error());
      }
    }
    std::vector<Pair> cells(static_cast<std::size_t>(options.points) * options.arms);
    if (Status done = run_round(round_order(options, round), hooks, options.arms, cells); !done) {
      return stopped(std::move(result), done.error());
    }
    result.table.append(cells);
    if (hooks.after_round && !hooks.after_round(round, result.table)) {
      result.reason = StopReason::caller;
      break;
    }
  }
  return result;
}

}  // namespace splitwave::measure
