// Draws with gnuplot. Owns the child process: script in, SVG out, nothing on the disk in between.
// Used by plots.cpp.
#pragma once

#include <string>

#include "splitwave/status.h"

namespace splitwave::experiment {

// The script must leave `set output` alone: gnuplot's standard output is the result. environment
// when gnuplot is not installed (with the remedy), when it fails, or when it draws nothing.
[[nodiscard]] Expected<std::string> run_gnuplot(const std::string& script,
                                                const std::string& program = "gnuplot");

}  // namespace splitwave::experiment
