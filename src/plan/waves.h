// Waves: how many times a launch fills the machine, and how full. Owns the two quotients that every
// plan reports. A wave is an abstraction (CTAs start one by one); the cost model schedules the list
// instead (plan/makespan.h). Called by the planner and the command line.
#pragma once

#include <cstdint>

namespace splitwave {

struct Waves {
  std::int64_t waves = 0;  // ceil(ctas / slots); 0 for an empty launch
  double utilization = 0;  // ctas / (waves * slots); 0 for an empty launch
};

// slots >= 1: SMs * CTAs per SM.
[[nodiscard]] constexpr Waves waves_of(std::int64_t ctas, std::int64_t slots) {
  Waves result;
  if (ctas <= 0) return result;
  result.waves = (ctas + slots - 1) / slots;
  result.utilization = static_cast<double>(ctas) / static_cast<double>(result.waves * slots);
  return result;
}

// The source's rule: enough splits for `target_ctas` CTAs, at least one. rows, head_blocks >= 1.
[[nodiscard]] constexpr std::int64_t splits_for_target(std::int64_t target_ctas, std::int64_t rows,
                                                       std::int64_t head_blocks) {
  const std::int64_t base = rows * head_blocks;
  return target_ctas <= base ? 1 : (target_ctas + base - 1) / base;
}

}  // namespace splitwave
