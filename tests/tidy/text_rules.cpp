// Rules about one file at a time: size, width, first comment, function length, output, paths.
#include <algorithm>
#include <array>
#include <regex>
#include <set>
#include <string_view>

#include "tidy/rules.h"

namespace splitwave::tidy {
namespace {

bool is_script(const std::string& path) {
  const std::string extension = extension_of(path);
  return extension == ".py" || extension == ".sh" || extension == ".cmake" ||
         file_name_of(path) == "CMakeLists.txt";
}

bool is_source(const std::string& path) { return is_cpp(path) || is_script(path); }

// Code points: a continuation byte of UTF-8 adds no column.
int columns_of(std::string_view line) {
  return static_cast<int>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string_view trimmed(std::string_view line) {
  const auto start = line.find_first_not_of(" \t\r");
  if (start == std::string_view::npos) return {};
  return line.substr(start, line.find_last_not_of(" \t\r") - start + 1);
}

// Whether a line at column 0 opens a function body: it ends in "{" and is none of the other things
// that do at column 0 after clang-format.
bool opens_function(std::string_view line, std::string_view previous) {
  if (line.empty() || line.back() != '{' || line.front() == ' ' || line.front() == '}' ||
      line.front() == '#' || line.front() == '/') {
    // A wrapped signature ends in an indented ") {": its first line stands at column 0 before it.
    return false;
  }
  static constexpr std::array<std::string_view, 8> others = {
      "namespace", "class ",       "struct ",          "enum ",
      "union ",    "extern \"C\"", "inline namespace", "HWY_BEFORE_NAMESPACE"};
  for (const auto other : others) {
    if (line.starts_with(other)) return false;
  }
  if (line.ends_with("= {") || line.ends_with("={")) return false;
  return line.find('(') != std::string_view::npos || previous.find('(') != std::string_view::npos;
}

// Files whose job is to print; src/serve too, which is a process of its own and logs.
const std::set<std::string> k_may_print = {
    "src/base/check.cpp",       // aborts with its last words
    "src/base/progress.cpp",    // progress, only to a terminal
    "src/runtime/decoder.cpp",  // SPLITWAVE_TRACE=plan: the operator asked for it
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Finding& finding) {
  out << finding.path;
  if (finding.line > 0) out << ':' << finding.line;
  return out << ": " << finding.text;
}

Findings check_file_sizes(const SourceTree& tree) {
  Findings findings;
  for (const auto& path : tree.files()) {
    if (!is_source(path)) continue;
    const int limit = is_cuda(path) ? k_kernel_lines_max : k_file_lines_max;
    const int count = static_cast<int>(tree.lines(path).size());
    if (count > limit) {
      findings.push_back(
          {path, 0, std::to_string(count) + " lines; at most " + std::to_string(limit)});
    }
  }
  return findings;
}

Findings check_columns(const SourceTree& tree) {
  Findings findings;
  for (const auto& path : tree.files()) {
    const bool is_list = file_name_of(path) == "CMakeLists.txt";  // lists of names
    if (!is_source(path) || is_list) continue;
    int number = 0;
    for (const auto line : tree.lines(path)) {
      ++number;
      if (const int columns = columns_of(line); columns > k_columns_max) {
        findings.push_back(
            {path, number,
             std::to_string(columns) + " columns; at most " + std::to_string(k_columns_max)});
      }
      if (line.find('\t') != std::string_view::npos) {
        findings.push_back({path, number, "a tab; write spaces, or \\t in a string"});
      }
    }
  }
  return findings;
}

Findings check_opening_comments(const SourceTree& tree) {
  constexpr std::size_t text_min = 15;  // shorter than that says nothing
  Findings findings;
  for (const auto& path : tree.files()) {
    const bool is_list = file_name_of(path) == "CMakeLists.txt";  // its folder's files say it
    if (!is_source(path) || is_list) continue;
    std::string_view first;
    for (const auto line : tree.lines(path)) {
      if (line.starts_with("#!") || trimmed(line).empty()) continue;
      first = trimmed(line);
      break;
    }
    const bool is_comment = is_cpp(path) ? first.starts_with("//") || first.starts_with("/*")
                                         : first.starts_with("#") || first.starts_with("\"\"\"");
    if (!is_comment || first.size() < text_min) {
      findings.push_back({path, 1,
                          "open with a comment: what the file owns, must not do, and who "
                          "calls it"});
    }
  }
  return findings;
}

Findings check_function_lengths(const SourceTree& tree) {
  Findings findings;
  for (const auto& path : tree.files()) {
    if (!is_cpp(path)) continue;
    const int limit = is_cuda(path) ? k_kernel_function_lines_max : k_function_lines_max;
    const auto lines = tree.lines(path);
    int opened = -1;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      // A wrapped signature: "    int b) {" under a first line at column 0 that holds the "(".
      std::size_t first = i;
      if (lines[i].ends_with(") {") || lines[i].ends_with(") const {")) {
        while (first > 0 && lines[first].starts_with("    ")) --first;
      }
      const bool is_wrapped = first != i && lines[first].find('(') != std::string_view::npos &&
                              !lines[first].starts_with(' ') && !lines[first].ends_with('{');
      if (opened < 0 && (is_wrapped || opens_function(lines[i], i > 0 ? lines[i - 1] : ""))) {
        opened = static_cast<int>(first);
      } else if (opened >= 0 && lines[i] == "}") {
        const int length = static_cast<int>(i) - opened + 1;
        if (length > limit) {
          findings.push_back({path, opened + 1,
                              "a function of " + std::to_string(length) + " lines; at most " +
                                  std::to_string(limit)});
        }
        opened = -1;
      } else if (lines[i].starts_with("}")) {
        opened = -1;
      }
    }
  }
  return findings;
}

Findings check_pragma_once(const SourceTree& tree) {
  Findings findings;
  for (const auto& path : tree.files()) {
    if (!is_header(path)) continue;
    const std::string& text = tree.text(path);
    // Highway compiles its headers once a target: a toggle guards them instead.
    if (text.find("#pragma once") == std::string::npos &&
        text.find("HWY_TARGET_TOGGLE") == std::string::npos) {
      findings.push_back({path, 0, "no #pragma once"});
    }
  }
  return findings;
}

Findings check_quiet_libraries(const SourceTree& tree) {
  static const std::regex loud(
      R"((std::cout|std::cerr|\bstd::exit\b|\bexit\(|(^|[^a-z_])(printf|puts|putchar)\(|)"
      R"(fprintf\(\s*(stdout|stderr)|fputs\([^;]*,\s*(stdout|stderr)\)))");
  Findings findings;
  for (const auto& path : tree.files()) {
    if (!path.starts_with("src/") || !is_cpp(path)) continue;
    if (k_may_print.contains(path) || path.starts_with("src/serve/")) continue;
    int number = 0;
    for (const auto line : tree.lines(path)) {
      ++number;
      if (trimmed(line).starts_with("//")) continue;
      const std::string text(line);
      if (text.find("_exit(") != std::string::npos) continue;  // a child after fork
      if (std::regex_search(text, loud)) {
        findings.push_back({path, number, "a library neither prints nor exits: return a value"});
      }
    }
  }
  return findings;
}

Findings check_outside_paths(const SourceTree& tree) {
  // Written in two parts, so that this file does not find itself.
  static const std::array<std::string, 3> outside = {
      std::string("../") + "shared", std::string("/work") + "/", std::string("/home") + "/"};
  Findings findings;
  for (const auto& path : tree.files()) {
    const std::string extension = extension_of(path);
    const bool is_read = is_source(path) || extension == ".md" || extension == ".toml" ||
                         extension == ".in" || extension == ".service";
    if (!is_read) continue;
    int number = 0;
    for (const auto line : tree.lines(path)) {
      ++number;
      for (const auto& prefix : outside) {
        if (line.find(prefix) != std::string_view::npos) {
          findings.push_back({path, number, "names a path outside the project: " + prefix});
        }
      }
    }
  }
  return findings;
}

}  // namespace splitwave::tidy
