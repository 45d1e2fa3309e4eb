// The chain goes through an opaque register, so that the compiler can neither shorten nor drop it.
#include "experiment/host_clock.h"

#include <algorithm>
#include <cstdint>

#include "measure/host_timer.h"

namespace splitwave::experiment {

double host_clock_ghz() {
  constexpr int k_chains = 20;
  constexpr int k_steps = 25'000;  // 50 us at 2 GHz: shorter than a scheduler's slice
  constexpr double k_cycles_per_step = 4;
  std::int64_t best_ns = INT64_MAX;
  std::uint64_t x = 1;
  for (int chain = 0; chain < k_chains; ++chain) {
    const std::int64_t start_ns = measure::monotonic_ns();
    for (int i = 0; i < k_steps; ++i) {
      x = x * 6364136223846793005U + 1442695040888963407U;
      asm volatile("" : "+r"(x));
    }
    best_ns = std::min(best_ns, measure::monotonic_ns() - start_ns);
  }
  return k_cycles_per_step * k_steps / static_cast<double>(std::max<std::int64_t>(1, best_ns));
}

}  // namespace splitwave::experiment
