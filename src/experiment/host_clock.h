// The speed of the core that this thread runs on, without privileges. Owns one function: a chain of
// dependent multiply-adds is timed, and the fastest of many short chains is taken, so that a
// preemption does not count as a slow clock. Called once before and after each round.
#pragma once

namespace splitwave::experiment {

// GHz, on the assumption of 4 cycles a step (integer multiply 3, add 1: Intel since Skylake, AMD
// since Zen, Arm Neoverse). Where that is off, the scale is off by a constant and the band still
// holds. Takes about 1 ms.
[[nodiscard]] double host_clock_ghz();

}  // namespace splitwave::experiment
