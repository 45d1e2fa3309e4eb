// Rules about the tree: no file that nothing builds or includes, a root that fits on a screen.
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tidy/includes.h"
#include "tidy/rules.h"

namespace splitwave::tidy {
namespace {

bool is_build_file(const std::string& path) {
  return file_name_of(path) == "CMakeLists.txt" || extension_of(path) == ".cmake";
}

// A word of a build file as a pattern: "${kind}" and "*" stand for any text within a name.
std::regex pattern_of(const std::string& word) {
  std::string pattern;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (word.compare(i, 2, "${") == 0) {
      i = std::min(word.find('}', i), word.size() - 1);
      pattern += ".*";
    } else if (word[i] == '*') {
      pattern += "[^/]*";
    } else {
      if (std::string(".+()[]^$|\\?{}").find(word[i]) != std::string::npos) pattern += '\\';
      pattern += word[i];
    }
  }
  return std::regex(pattern);
}

struct BuildWords {
  std::set<std::string> exact;
  std::vector<std::regex> patterns;

  [[nodiscard]] bool name(const std::string& path) const {
    if (exact.contains(path)) return true;
    for (const auto& pattern : patterns) {
      if (std::regex_match(path, pattern)) return true;
    }
    return false;
  }
};

BuildWords words_of(const SourceTree& tree, const std::string& path) {
  BuildWords words;
  for (const auto line : tree.lines(path)) {
    std::string code(line.substr(0, line.find('#')));
    for (char& c : code) {
      if (c == '(' || c == ')' || c == '"' || c == ';') c = ' ';
    }
    std::istringstream stream(code);
    for (std::string word; stream >> word;) {
      for (const char* here : {"${CMAKE_CURRENT_SOURCE_DIR}/", "${CMAKE_CURRENT_LIST_DIR}/"}) {
        if (word.starts_with(here)) word = word.substr(std::string(here).size());
      }
      if (word.find("${") != std::string::npos || word.find('*') != std::string::npos) {
        // A lone variable could stand for any list; it names nothing.
        if (word.find('.') != std::string::npos) words.patterns.push_back(pattern_of(word));
      } else {
        words.exact.insert(word);
      }
    }
  }
  return words;
}

}  // namespace

Findings check_dead_files(const SourceTree& tree) {
  std::map<std::string, std::vector<BuildWords>> by_folder;
  for (const auto& path : tree.files()) {
    if (is_build_file(path)) by_folder[folder_of(path)].push_back(words_of(tree, path));
  }
  std::set<std::string> included;
  for (const auto& path : tree.files()) {
    if (!is_cpp(path)) continue;
    for (const auto& include : includes_of(tree, path)) {
      if (!include.project_path.empty() && include.project_path != path) {
        included.insert(include.project_path);
      }
    }
  }
  Findings findings;
  for (const auto& path : tree.files()) {
    if (is_header(path)) {
      if (!included.contains(path)) findings.push_back({path, 0, "no file includes this header"});
      continue;
    }
    // A source that a test or a Highway target includes is reached too.
    if (!is_cpp(path) || included.contains(path)) continue;
    bool is_named = false;
    for (std::string folder = folder_of(path); !is_named;) {
      const std::string relative = folder.empty() ? path : path.substr(folder.size() + 1);
      for (const auto& words : by_folder[folder]) is_named = is_named || words.name(relative);
      if (folder.empty()) break;
      folder = folder_of(folder);
    }
    if (!is_named) findings.push_back({path, 0, "no CMakeLists.txt names this file"});
  }
  return findings;
}

Findings check_root_entries(const SourceTree& tree) {
  std::set<std::string> entries;
  for (const auto& path : tree.files()) entries.insert(path.substr(0, path.find('/')));
  if (entries.size() <= static_cast<std::size_t>(k_root_entries_max)) return {};
  return {{".", 0,
           std::to_string(entries.size()) + " entries in the root; at most " +
               std::to_string(k_root_entries_max)}};
}

}  // namespace splitwave::tidy
