// Typed reading of a TOML table with errors that name file, line and field. Owns Fields: each
// getter records the name it was asked for, and finish() refuses every name that nobody asked for.
// The first problem wins; after it the getters return their defaults. Used by manifest.cpp alone.
#pragma once

#include <toml++/toml.h>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "splitwave/status.h"

namespace splitwave::experiment {

// Shared by all tables of one file: the file's name and the first problem.
struct TomlProblems {
  std::string file;
  std::optional<Error> first;

  void add(const toml::source_region& where, const std::string& field, const std::string& problem);
};

class Fields {
 public:
  // prefix: the table's dotted name, "" at the top.
  Fields(const toml::table& table, std::string prefix, TomlProblems& problems)
      : table_(table), prefix_(std::move(prefix)), problems_(problems) {}

  [[nodiscard]] bool has(std::string_view name);
  // Required; longer than k_text_max or blank is refused.
  [[nodiscard]] std::string text(std::string_view name);
  [[nodiscard]] std::string text_or(std::string_view name, std::string_view otherwise);
  [[nodiscard]] std::int64_t whole(std::string_view name, std::int64_t least, std::int64_t most);
  [[nodiscard]] std::int64_t whole_or(std::string_view name, std::int64_t least, std::int64_t most,
                                      std::int64_t otherwise);
  [[nodiscard]] double number(std::string_view name, double least, double most);
  [[nodiscard]] double number_or(std::string_view name, double least, double most,
                                 double otherwise);
  [[nodiscard]] bool flag_or(std::string_view name, bool otherwise);
  // The index in names of the field's text.
  [[nodiscard]] int choice(std::string_view name, std::span<const std::string_view> names);
  [[nodiscard]] int choice_or(std::string_view name, std::span<const std::string_view> names,
                              int otherwise);
  [[nodiscard]] std::vector<std::int64_t> wholes(std::string_view name, std::int64_t least,
                                                 std::int64_t most, std::size_t count_max);
  [[nodiscard]] std::vector<double> numbers(std::string_view name, double least, double most,
                                            std::size_t count_max);
  [[nodiscard]] std::vector<std::string> texts(std::string_view name, std::size_t count_max);
  // The named table, null when missing and optional.
  [[nodiscard]] const toml::table* table(std::string_view name, bool required);
  // The tables of a [[name]] array.
  [[nodiscard]] std::vector<const toml::table*> tables(std::string_view name, bool required,
                                                       std::size_t count_max);
  // Refuses what was not asked for.
  void finish();

  void refuse(std::string_view name, const std::string& problem);

 private:
  [[nodiscard]] const toml::node* find(std::string_view name, bool required);
  // A misspelt field is named instead of the missing one.
  void refuse_missing(std::string_view name);
  [[nodiscard]] std::string dotted(std::string_view name) const;
  [[nodiscard]] const toml::array* list(std::string_view name, std::size_t count_max);

  const toml::table& table_;
  std::string prefix_;
  TomlProblems& problems_;
  std::vector<std::string> known_;
};

}  // namespace splitwave::experiment
