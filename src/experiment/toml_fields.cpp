// The getters of Fields: one shape each (find, check the type, check the range).
#include "experiment/toml_fields.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/nearest_name.h"

namespace splitwave::experiment {
namespace {

constexpr std::size_t k_text_max = 4'000;
constexpr std::size_t k_shown_max = 60;

std::string shown(const toml::node& node) {
  std::ostringstream out;
  node.visit([&](const auto& concrete) { out << concrete; });
  std::string text = std::move(out).str();
  if (text.size() > k_shown_max) text = text.substr(0, k_shown_max) + "...";
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c >= 0 && c < 0x20; }, ' ');
  return text;
}

std::string plain(double value) {
  std::ostringstream out;
  out << value;
  return std::move(out).str();
}

}  // namespace

void TomlProblems::add(const toml::source_region& where, const std::string& field,
                       const std::string& problem) {
  if (first) return;
  first = bad_input(file + ":" + std::to_string(where.begin.line) + ": " + field + ": " + problem);
}

std::string Fields::dotted(std::string_view name) const {
  return prefix_.empty() ? std::string(name) : prefix_ + "." + std::string(name);
}

void Fields::refuse(std::string_view name, const std::string& problem) {
  const toml::node* node = table_.get(name);
  problems_.add(node != nullptr ? node->source() : table_.source(), dotted(name), problem);
}

const toml::node* Fields::find(std::string_view name, bool required) {
  known_.emplace_back(name);
  const toml::node* node = table_.get(name);
  if (node == nullptr && required) refuse_missing(name);
  return node;
}

void Fields::refuse_missing(std::string_view name) {
  const std::string_view wanted[] = {name};
  for (const auto& [key, node] : table_) {
    const std::string_view present = key.str();
    if (std::find(known_.begin(), known_.end(), present) != known_.end()) continue;
    if (nearest_name(present, wanted).empty()) continue;
    problems_.add(key.source(), dotted(present.substr(0, k_shown_max)),
                  "unknown field" + did_you_mean(present, wanted));
    return;
  }
  refuse(name, "missing");
}

bool Fields::has(std::string_view name) { return find(name, false) != nullptr; }

std::string Fields::text(std::string_view name) {
  const toml::node* node = find(name, true);
  if (node == nullptr) return {};
  const auto value = node->value_exact<std::string>();
  if (!value) {
    refuse(name, shown(*node) + " is not a text in quotes");
    return {};
  }
  if (value->size() > k_text_max) {
    refuse(name, "longer than " + std::to_string(k_text_max) + " characters");
  }
  if (value->find_first_not_of(" \t\r\n") == std::string::npos) refuse(name, "is empty");
  return *value;
}

std::string Fields::text_or(std::string_view name, std::string_view otherwise) {
  const toml::node* node = find(name, false);
  if (node == nullptr) return std::string(otherwise);
  const auto value = node->value_exact<std::string>();
  if (value && value->empty()) return {};  // an empty plan is a plan
  return text(name);
}

std::int64_t Fields::whole(std::string_view name, std::int64_t least, std::int64_t most) {
  const toml::node* node = find(name, true);
  if (node == nullptr) return least;
  const auto value = node->value_exact<std::int64_t>();
  if (!value || *value < least || *value > most) {
    refuse(name, shown(*node) + " is not a whole number from " + std::to_string(least) + " to " +
                     std::to_string(most));
    return least;
  }
  return *value;
}

std::int64_t Fields::whole_or(std::string_view name, std::int64_t least, std::int64_t most,
                              std::int64_t otherwise) {
  return has(name) ? whole(name, least, most) : otherwise;
}

double Fields::number(std::string_view name, double least, double most) {
  const toml::node* node = find(name, true);
  if (node == nullptr) return least;
  const auto value = node->is_number() ? node->value<double>() : std::nullopt;
  if (!value || !(*value >= least && *value <= most)) {  // NaN fails too
    refuse(name, shown(*node) + " is not a number from " + plain(least) + " to " + plain(most));
    return least;
  }
  return *value;
}

double Fields::number_or(std::string_view name, double least, double most, double otherwise) {
  return has(name) ? number(name, least, most) : otherwise;
}

bool Fields::flag_or(std::string_view name, bool otherwise) {
  const toml::node* node = find(name, false);
  if (node == nullptr) return otherwise;
  const auto value = node->value_exact<bool>();
  if (!value) refuse(name, shown(*node) + " is neither true nor false");
  return value.value_or(otherwise);
}

int Fields::choice(std::string_view name, std::span<const std::string_view> names) {
  const std::string value = text(name);
  if (problems_.first) return 0;
  const auto found = std::find(names.begin(), names.end(), value);
  if (found != names.end()) return static_cast<int>(found - names.begin());
  refuse(name, "'" + value.substr(0, k_shown_max) + "' is unknown" + did_you_mean(value, names) +
                   ": one of " + join_names(names));
  return 0;
}

int Fields::choice_or(std::string_view name, std::span<const std::string_view> names,
                      int otherwise) {
  return has(name) ? choice(name, names) : otherwise;
}

const toml::array* Fields::list(std::string_view name, std::size_t count_max) {
  const toml::node* node = find(name, true);
  if (node == nullptr) return nullptr;
  const toml::array* array = node->as_array();
  if (array == nullptr) {
    refuse(name, shown(*node) + " is not a list");
    return nullptr;
  }
  if (array->empty() || array->size() > count_max) {
    refuse(name, "holds " + std::to_string(array->size()) + " items; 1 to " +
                     std::to_string(count_max) + " are accepted");
    return nullptr;
  }
  return array;
}

std::vector<std::int64_t> Fields::wholes(std::string_view name, std::int64_t least,
                                         std::int64_t most, std::size_t count_max) {
  std::vector<std::int64_t> out;
  const toml::array* array = list(name, count_max);
  if (array == nullptr) return out;
  for (const toml::node& item : *array) {
    const auto value = item.value_exact<std::int64_t>();
    if (!value || *value < least || *value > most) {
      problems_.add(item.source(), dotted(name),
                    shown(item) + " is not a whole number from " + std::to_string(least) + " to " +
                        std::to_string(most));
      return {};
    }
    out.push_back(*value);
  }
  return out;
}

std::vector<double> Fields::numbers(std::string_view name, double least, double most,
                                    std::size_t count_max) {
  std::vector<double> out;
  const toml::array* array = list(name, count_max);
  if (array == nullptr) return out;
  for (const toml::node& item : *array) {
    const auto value = item.is_number() ? item.value<double>() : std::nullopt;
    if (!value || !(*value >= least && *value <= most)) {
      problems_.add(item.source(), dotted(name),
                    shown(item) + " is not a number from " + plain(least) + " to " + plain(most));
      return {};
    }
    out.push_back(*value);
  }
  return out;
}

std::vector<std::string> Fields::texts(std::string_view name, std::size_t count_max) {
  std::vector<std::string> out;
  const toml::array* array = list(name, count_max);
  if (array == nullptr) return out;
  for (const toml::node& item : *array) {
    const auto value = item.value_exact<std::string>();
    if (!value) {
      problems_.add(item.source(), dotted(name), shown(item) + " is not a text in quotes");
      return {};
    }
    out.push_back(*value);
  }
  return out;
}

const toml::table* Fields::table(std::string_view name, bool required) {
  const toml::node* node = find(name, required);
  if (node == nullptr) return nullptr;
  if (!node->is_table())
    refuse(name, shown(*node) + " is not a table: write [" + dotted(name) + "]");
  return node->as_table();
}

std::vector<const toml::table*> Fields::tables(std::string_view name, bool required,
                                               std::size_t count_max) {
  std::vector<const toml::table*> out;
  const toml::node* node = find(name, required);
  if (node == nullptr) return out;
  const toml::array* array = node->as_array();
  const bool of_tables =
      array != nullptr &&
      std::all_of(array->begin(), array->end(), [](const toml::node& n) { return n.is_table(); });
  if (!of_tables) {
    refuse(name, "is not a list of tables: write [[" + dotted(name) + "]]");
    return out;
  }
  if (array->size() > count_max) {
    refuse(name, "holds " + std::to_string(array->size()) + " tables; at most " +
                     std::to_string(count_max) + " are accepted");
    return out;
  }
  for (const toml::node& item : *array) out.push_back(item.as_table());
  return out;
}

void Fields::finish() {
  const std::vector<std::string_view> names(known_.begin(), known_.end());
  for (const auto& [key, node] : table_) {
    const std::string_view name = key.str();
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    problems_.add(key.source(), dotted(name.substr(0, k_shown_max)),
                  "unknown field" + did_you_mean(name, names));
  }
}

}  // namespace splitwave::experiment
