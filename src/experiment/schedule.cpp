// Rotations of one drawn order a block of rounds balance who comes first; reversal balances
// direction.
#include "experiment/schedule.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "base/check.h"
#include "base/random.h"

namespace splitwave::experiment {
namespace {

// Streams of the seed: one a block and point for the base order, one a round for the order of
// points.
std::uint64_t stream_of(std::uint64_t kind, std::uint64_t a, std::uint64_t b) {
  return kind << 60 | a << 24 | b;
}

std::vector<int> drawn_order(std::uint64_t seed, std::uint64_t stream, int n) {
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  Rng rng(seed, stream);
  rng.shuffle(std::span<int>(order));
  return order;
}

}  // namespace

Round make_round(std::uint64_t seed, int index, int points, int arms) {
  SPLITWAVE_CHECK(index >= 0 && points > 0 && arms > 0, "an empty schedule");
  const int slots = slot_count(arms);
  const int block = index / slots;
  Round round;
  round.index = index;
  const auto u64 = [](int v) { return static_cast<std::uint64_t>(v); };
  for (const int point : drawn_order(seed, stream_of(1, u64(index), 0), points)) {
    std::vector<int> order = drawn_order(seed, stream_of(2, u64(block), u64(point)), slots);
    std::rotate(order.begin(), order.begin() + index % slots, order.end());
    if (index % 2 == 1) std::reverse(order.begin() + 1, order.end());  // keeps who comes first
    Visit visit{point, order};
    visit.slots.insert(visit.slots.end(), order.rbegin(), order.rend());
    round.visits.push_back(std::move(visit));
  }
  return round;
}

}  // namespace splitwave::experiment
