// Include lines by one regular expression; conditions of the preprocessor are not evaluated.
#include "tidy/includes.h"

#include <regex>

namespace splitwave::tidy {

std::vector<Include> includes_of(const SourceTree& tree, const std::string& path) {
  static const std::regex pattern(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::vector<Include> includes;
  int number = 0;
  for (const auto line : tree.lines(path)) {
    ++number;
    if (line.find("include") == std::string_view::npos) continue;
    std::match_results<std::string_view::const_iterator> match;
    if (!std::regex_search(line.begin(), line.end(), match, pattern)) continue;
    Include include{.line = number, .written = match[2].str(), .project_path = {}};
    // Beside the file first, as the preprocessor does, then the folders above it (a target's own
    // include folder), then the include folders of every target.
    std::vector<std::string> folders;
    for (std::string folder = folder_of(path); !folder.empty(); folder = folder_of(folder)) {
      folders.push_back(folder);
    }
    for (const char* folder : {"src", "include", "tests", ""}) folders.emplace_back(folder);
    for (const std::string& folder : folders) {
      const std::string candidate =
          normalised(folder.empty() ? include.written : folder + '/' + include.written);
      if (!candidate.empty() && tree.has(candidate)) {
        include.project_path = candidate;
        break;
      }
    }
    includes.push_back(include);
  }
  return includes;
}

}  // namespace splitwave::tidy
