// The residual plot of `splitwave fit`. Owns the gnuplot script and the child process that draws
// it. Called by cmd_fit.cpp.
#pragma once

#include <string>

#include "splitwave/status.h"
#include "stats/step_model.h"

namespace splitwave::app {

// Two panels: step time with the fitted line, and the residuals in percent, where wave steps show.
[[nodiscard]] std::string fit_plot_script(const stats::StepFit& fit);

// Draws the script into an SVG file. environment when gnuplot is missing or fails, or the file
// cannot be written; an existing file is then untouched.
[[nodiscard]] Status draw_svg(const std::string& script, const std::string& path);

}  // namespace splitwave::app
