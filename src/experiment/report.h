// REPORT.md and its plots: what a newcomer reads. Owns the wording and the plots' data; everything
// in it comes from result.json. Called by `ab run`, `ab import` and `ab report`.
#pragma once

#include <string>
#include <vector>

#include "experiment/record.h"
#include "splitwave/status.h"

namespace splitwave::experiment {

inline constexpr const char* k_throughput_plot = "throughput.svg";
inline constexpr const char* k_step_time_plot = "step_time.svg";

// The text of REPORT.md. has_plots: whether the two SVG files stand beside it.
[[nodiscard]] std::string report_text(const ResultRecord& record, bool has_plots);

// Writes the two plots by gnuplot. environment when gnuplot is missing or fails: what was measured
// is not lost by that, `ab report` draws later.
[[nodiscard]] Status write_plots(const ResultRecord& record, const std::string& folder);

// result.json, plots, REPORT.md, in this order, each whole or not at all. plots receives why there
// are no plots, if so; the report then says it too.
[[nodiscard]] Status write_record(const ResultRecord& record, const std::string& folder,
                                  Status& plots);

// The closing lines of `ab run`: verdict, what it means, where the report is.
[[nodiscard]] std::string closing_text(const ResultRecord& record, const std::string& folder);

}  // namespace splitwave::experiment
