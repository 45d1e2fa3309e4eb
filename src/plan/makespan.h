// List scheduling: when the last item of a launch ends. Owns the exact makespan of Graham's rule
// (the next item goes to the slot that frees first), which is what a GPU's block scheduler and the
// CPU's worker pool do; ceil(waves) is only its approximation for equal items. Called by the cost
// model.
#pragma once

#include <cstdint>
#include <span>

namespace splitwave {

// count items of one duration, consecutive in the list.
struct ItemGroup {
  std::int64_t count = 0;
  double duration_us = 0;
};

// Finish time of the list on `slots` equal slots that are all free at 0. slots >= 1, durations >=
// 0. Groups are scheduled as groups: the cost is the number of distinct finish times, not of items.
[[nodiscard]] double list_makespan_us(std::span<const ItemGroup> items, std::int64_t slots);

}  // namespace splitwave
