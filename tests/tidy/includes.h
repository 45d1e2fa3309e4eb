// Reading #include lines. Owns their resolution: which of the project's files an include means, or
// that it means a file from elsewhere. Called by the layer rules and the dead-file rule.
#pragma once

#include <string>
#include <vector>

#include "tidy/tree.h"

namespace splitwave::tidy {

struct Include {
  int line = 0;
  std::string written;       // between the quotes or brackets
  std::string project_path;  // "" for a header from elsewhere
};

[[nodiscard]] std::vector<Include> includes_of(const SourceTree& tree, const std::string& path);

}  // namespace splitwave::tidy
