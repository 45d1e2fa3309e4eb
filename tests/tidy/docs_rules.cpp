// Rules about documents: links, the README's results table, the length of reports.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>

#include "tidy/rules.h"

namespace splitwave::tidy {
namespace {

struct Link {
  int line = 0;
  std::string text;
  std::string target;
};

// The lines of a document outside fenced code, with `code spans` blanked.
std::vector<std::string> prose_lines(const SourceTree& tree, const std::string& path) {
  static const std::regex span("`[^`]*`");
  std::vector<std::string> result;
  bool in_fence = false;
  for (const auto line : tree.lines(path)) {
    std::string text(line);
    const auto start = text.find_first_not_of(' ');
    const bool is_fence = start != std::string::npos && (text.compare(start, 3, "```") == 0 ||
                                                         text.compare(start, 3, "~~~") == 0);
    if (is_fence) in_fence = !in_fence;
    if (in_fence || is_fence) {
      result.emplace_back();
      continue;
    }
    result.push_back(std::regex_replace(text, span, "code"));
  }
  return result;
}

std::vector<Link> links_of(const SourceTree& tree, const std::string& path) {
  static const std::regex inline_link(R"(\[([^\]]*)\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\))");
  static const std::regex reference(R"(^\s*\[[^\]]+\]:\s*(\S+))");
  std::vector<Link> links;
  int number = 0;
  for (const auto& line : prose_lines(tree, path)) {
    ++number;
    for (std::sregex_iterator it(line.begin(), line.end(), inline_link), end; it != end; ++it) {
      links.push_back({number, (*it)[1], (*it)[2]});
    }
    std::smatch match;
    if (std::regex_search(line, match, reference)) links.push_back({number, "", match[1]});
  }
  return links;
}

// The anchor that GitHub gives a heading: lower case, punctuation dropped, spaces to hyphens.
std::string anchor_of(std::string_view heading) {
  std::string anchor;
  for (const char c : heading) {
    const auto u = static_cast<unsigned char>(c);
    if (u >= 0x80 || std::isalnum(u) || c == '_' || c == '-') {
      anchor += static_cast<char>(std::tolower(u));
    } else if (c == ' ') {
      anchor += '-';
    }
  }
  return anchor;
}

std::set<std::string> anchors_of(const SourceTree& tree, const std::string& path) {
  static const std::regex heading(R"(^#{1,6}\s+(.*?)\s*#*\s*$)");
  std::set<std::string> anchors;
  bool in_fence = false;
  for (const auto line : tree.lines(path)) {
    if (line.starts_with("```")) in_fence = !in_fence;
    const std::string text(line);
    std::smatch match;
    if (in_fence || !std::regex_match(text, match, heading)) continue;
    const std::string base = anchor_of(match[1].str());
    std::string anchor = base;
    for (int copy = 1; anchors.contains(anchor); ++copy) {
      anchor = base + '-' + std::to_string(copy);
    }
    anchors.insert(anchor);
  }
  return anchors;
}

// What is wrong with a link of `document`, or nothing.
std::optional<std::string> broken(const SourceTree& tree, const std::string& document,
                                  const std::string& target) {
  if (target.find("://") != std::string::npos || target.starts_with("mailto:")) return {};
  const auto hash = target.find('#');
  const std::string written = target.substr(0, hash);
  const std::string fragment = hash == std::string::npos ? "" : target.substr(hash + 1);
  std::string path = document;
  if (!written.empty()) {
    const std::string folder = folder_of(document);
    path = normalised(folder.empty() ? written : folder + '/' + written);
    if (path.empty()) return "leads out of the project";
    if (path == ".") return {};
    if (!tree.has(path) && !tree.has_folder(path)) return "leads nowhere";
  }
  if (fragment.empty() || extension_of(path) != ".md") return {};
  if (!anchors_of(tree, path).contains(fragment)) return "names no heading of " + path;
  return {};
}

// The number that a cell shows: its value, its decimals, whether it is a percentage.
struct Shown {
  double value = 0;
  int decimals = 0;
  bool is_percent = false;
};

std::optional<Shown> number_in(const std::string& cell) {
  static const std::regex pattern(
      R"(^([+-]|\xE2\x88\x92)?\s*([0-9][0-9,]*)(?:\.([0-9]+))?\s*(.*)$)");
  std::smatch match;
  if (!std::regex_match(cell, match, pattern)) return {};
  std::string digits = match[2];
  std::erase(digits, ',');
  if (match[3].matched) digits += '.' + match[3].str();
  Shown shown;
  shown.value = std::stod(digits);
  if (match[1].matched && match[1].str() != "+") shown.value = -shown.value;
  shown.decimals = static_cast<int>(match[3].length());
  shown.is_percent = match[4].str().starts_with("%");
  return shown;
}

// What is wrong with a cell "[text](file#pointer)", or nothing.
std::optional<std::string> untrue(const SourceTree& tree, const Link& link) {
  const auto hash = link.target.find("#/");
  if (hash == std::string::npos) return "its link has no JSON pointer (file.json#/a/0/b)";
  const std::string path = normalised(link.target.substr(0, hash));
  if (!tree.has(path)) return "the record " + link.target.substr(0, hash) + " does not exist";
  const auto record = nlohmann::json::parse(tree.text(path), nullptr, false);
  if (record.is_discarded()) return path + " is not JSON";
  nlohmann::json value;
  try {
    value = record.at(nlohmann::json::json_pointer(link.target.substr(hash + 1)));
  } catch (const nlohmann::json::exception&) {
    return path + " has nothing at " + link.target.substr(hash + 1);
  }
  if (value.is_string() || value.is_boolean()) {
    const std::string stored = value.is_string() ? value.get<std::string>() : value.dump();
    if (stored == link.text) return {};
    return "shows '" + link.text + "', the record says '" + stored + "'";
  }
  const auto shown = number_in(link.text);
  if (!value.is_number() || !shown) return "shows no number, or the record holds none";
  const double stored = value.get<double>() * (shown->is_percent ? 100 : 1);
  // Half a unit of the last decimal, and a little for the decimal text of the record itself.
  const double half_unit = 0.5 * std::pow(10.0, -shown->decimals);
  if (std::fabs(stored - shown->value) <= half_unit * (1 + 1e-9)) return {};
  return "shows " + link.text + ", the record says " + value.dump();
}

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  std::string cell;
  for (std::size_t i = row.find('|') + 1; i < row.size(); ++i) {
    if (row[i] != '|') {
      cell += row[i];
      continue;
    }
    const auto start = cell.find_first_not_of(' ');
    cells.push_back(start == std::string::npos
                        ? ""
                        : cell.substr(start, cell.find_last_not_of(' ') - start + 1));
    cell.clear();
  }
  return cells;
}

void check_row(const SourceTree& tree, int line, const std::string& row, Findings& findings) {
  static const std::regex whole_link(R"(\[([^\]]+)\]\(([^)\s]+)\))");
  const auto cells = cells_of(row);
  for (std::size_t i = 1; i < cells.size(); ++i) {
    if (cells[i] == "-" || cells[i] == "\xE2\x80\x93" || cells[i] == "\xE2\x80\x94") continue;
    std::smatch match;
    if (!std::regex_match(cells[i], match, whole_link)) {
      findings.push_back({"README.md", line,
                          "cell '" + cells[i] +
                              "' names no record: write "
                              "[value](file.json#/pointer), or a dash"});
      continue;
    }
    if (const auto fault = untrue(tree, {line, match[1], match[2]})) {
      findings.push_back({"README.md", line, "cell '" + match[1].str() + "': " + *fault});
    }
  }
}

}  // namespace

Findings check_doc_links(const SourceTree& tree) {
  Findings findings;
  for (const auto& path : tree.files()) {
    if (extension_of(path) != ".md") continue;
    for (const auto& link : links_of(tree, path)) {
      if (const auto fault = broken(tree, path, link.target)) {
        findings.push_back({path, link.line, "link '" + link.target + "' " + *fault});
      }
    }
  }
  return findings;
}

Findings check_results_table(const SourceTree& tree) {
  Findings findings;
  int tables = 0;
  int rows = 0;
  int header_lines_left = 0;
  bool is_inside = false;
  int number = 0;
  for (const auto line : tree.lines("README.md")) {
    ++number;
    const std::string text(line);
    if (text == "<!-- results -->") {
      is_inside = true;
      header_lines_left = 2;  // the names and the rule below them
      ++tables;
    } else if (text == "<!-- /results -->") {
      is_inside = false;
    } else if (is_inside && text.starts_with("|")) {
      if (header_lines_left > 0) {
        --header_lines_left;
        continue;
      }
      ++rows;
      check_row(tree, number, text, findings);
    }
  }
  const bool has_records =
      std::any_of(tree.files().begin(), tree.files().end(), [](const std::string& path) {
        return path.starts_with("experiments/") && file_name_of(path) == "result.json";
      });
  if (tables == 0 && !has_records) return findings;
  if (tables != 1 || rows == 0 || is_inside) {
    findings.push_back({"README.md", 0,
                        "needs one results table with rows, between the lines "
                        "\"<!-- results -->\" and \"<!-- /results -->\""});
  }
  return findings;
}

Findings check_report_prose(const SourceTree& tree) {
  Findings findings;
  for (const auto& path : tree.files()) {
    if (!path.starts_with("experiments/") || file_name_of(path) != "REPORT.md") continue;
    int prose = 0;
    for (const auto& line : prose_lines(tree, path)) {
      const auto start = line.find_first_not_of(' ');
      if (start == std::string::npos) continue;
      prose += line[start] != '|' && line[start] != '#' && line[start] != '!';
    }
    if (prose > k_report_prose_lines_max) {
      findings.push_back({path, 0,
                          std::to_string(prose) + " lines of prose; at most " +
                              std::to_string(k_report_prose_lines_max)});
    }
  }
  return findings;
}

}  // namespace splitwave::tidy
