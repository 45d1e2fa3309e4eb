// The mechanical part of the house style (HACKING.md). Owns the list of rules; each is a function
// from a tree to what is wrong in it, so that a planted tree can show that the rule fails when it
// should (planted_test.cpp) and the project's own tree that it holds (project_test.cpp).
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "tidy/tree.h"

namespace splitwave::tidy {

struct Finding {
  std::string path;
  int line = 0;  // 1-based; 0 for the whole file
  std::string text;
};

using Findings = std::vector<Finding>;

std::ostream& operator<<(std::ostream& out, const Finding& finding);

inline constexpr int k_columns_max = 100;
inline constexpr int k_file_lines_max = 700;
inline constexpr int k_kernel_lines_max = 900;   // .cu and .cuh
inline constexpr int k_function_lines_max = 80;  // "about 70"
inline constexpr int k_kernel_function_lines_max = 150;
inline constexpr int k_root_entries_max = 20;
inline constexpr int k_report_prose_lines_max = 60;  // of an experiment's REPORT.md

// --- layers_rule.cpp: who may include whom
// --------------------------------------------------------- The table is read from
// scripts/cmake/splitwave_layers.cmake, the membership of a source from the splitwave_layer() call
// that lists it (a header belongs with the source of its name, else with its folder). Includes are
// followed through headers.
[[nodiscard]] Findings check_layers(const SourceTree& tree);
// Third-party and toolkit headers only where the table in layers_rule.cpp allows them: none in
// include/, none but the toolkit's in .cu and .cuh, none below the outer layers.
[[nodiscard]] Findings check_third_party(const SourceTree& tree);

// --- text_rules.cpp: what one file looks like
// ------------------------------------------------------
[[nodiscard]] Findings check_file_sizes(const SourceTree& tree);
[[nodiscard]] Findings check_columns(const SourceTree& tree);  // code points, not bytes; no tabs
[[nodiscard]] Findings check_opening_comments(const SourceTree& tree);
[[nodiscard]] Findings check_function_lengths(const SourceTree& tree);
[[nodiscard]] Findings check_pragma_once(const SourceTree& tree);
// Libraries neither print nor exit: no stdout, stderr or exit() in src/ below the outer layers,
// apart from check.cpp (aborts) and progress.cpp (its job).
[[nodiscard]] Findings check_quiet_libraries(const SourceTree& tree);
// No path outside the project: what it needs is copied in.
[[nodiscard]] Findings check_outside_paths(const SourceTree& tree);

// --- reach_rules.cpp: nothing lies around
// ---------------------------------------------------------- Each .cpp, .cu and .c is named in a
// CMakeLists.txt or .cmake file at or above its folder; each header is included by another file.
[[nodiscard]] Findings check_dead_files(const SourceTree& tree);
[[nodiscard]] Findings check_root_entries(const SourceTree& tree);

// --- docs_rules.cpp: documents are true
// ------------------------------------------------------------ Relative links of *.md lead to a
// file or folder of the project, and #anchors to a heading.
[[nodiscard]] Findings check_doc_links(const SourceTree& tree);
// README's results table, between the lines "<!-- results -->" and "<!-- /results -->"; needed as
// soon as an experiment has a result. Every cell after a row's first is either a dash (not
// measured) or one link
//
//   [1.18](experiments/0003-slug/result.json#/verdicts/0/ratio)
//
// whose target is a JSON file of the project and a JSON pointer into it (RFC 6901). The linked
// value must be what the cell shows: a string or a boolean literally, a number rounded to the
// decimals of the cell. A cell may carry a sign, thousands commas and a unit after the number
// ("+12.8 %", "1,254 tok/s"); with "%" the value is a fraction and is taken times 100.
[[nodiscard]] Findings check_results_table(const SourceTree& tree);
// experiments/*/REPORT.md holds at most k_report_prose_lines_max lines that are neither empty,
// table, image nor heading.
[[nodiscard]] Findings check_report_prose(const SourceTree& tree);

}  // namespace splitwave::tidy
