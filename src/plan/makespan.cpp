// Slots that free at the same time are kept as one entry.
#include "plan/makespan.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"

namespace splitwave {
namespace {

// Free time -> slots that free then. Times are sums of the same few durations; entries whose sums
// differ in the last bit stay apart, which costs an entry and changes no result beyond that bit.
using FreeSlots = std::map<double, std::int64_t>;

// While every free time lies within one duration, a round gives each slot exactly one item and
// moves all free times by that duration: whole rounds are applied at once.
std::int64_t skip_whole_rounds(FreeSlots& free, std::int64_t items, std::int64_t slots,
                               double duration_us) {
  const std::int64_t rounds = items / slots;
  if (rounds == 0 || free.rbegin()->first - free.begin()->first > duration_us) return items;
  FreeSlots moved;
  for (const auto& [time, count] : free) {
    moved[time + static_cast<double>(rounds) * duration_us] += count;
  }
  free = std::move(moved);
  return items - rounds * slots;
}

}  // namespace

double list_makespan_us(std::span<const ItemGroup> items, std::int64_t slots) {
  SPLITWAVE_CHECK(slots >= 1, "slots=" + std::to_string(slots));
  FreeSlots free{{0.0, slots}};
  double end_us = 0;
  for (const ItemGroup& group : items) {
    SPLITWAVE_CHECK(group.count >= 0 && group.duration_us >= 0, "an item group below zero");
    std::int64_t left = group.count;
    while (left > 0) {
      left = skip_whole_rounds(free, left, slots, group.duration_us);
      if (left == 0) break;
      const auto [time, count] = *free.begin();
      const std::int64_t taken = std::min(left, count);
      free.erase(free.begin());
      if (count > taken) free[time] = count - taken;
      free[time + group.duration_us] += taken;
      left -= taken;
    }
    // The last free time is the end only if some item ends there: a slot that never worked frees at
    // 0.
    end_us = std::max(end_us, free.rbegin()->first);
  }
  return end_us;
}

}  // namespace splitwave
