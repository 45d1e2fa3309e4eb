// Typed reading of a JSON object with errors that name the path. Owns JsonFields, and parse_run,
// the reader of a run's raw part. The first problem wins; after it the getters return defaults.
// Used by record.cpp alone.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiment/run_record.h"
#include "experiment/run_spec.h"
#include "splitwave/status.h"

namespace splitwave::experiment {

class JsonFields {
 public:
  JsonFields(const nlohmann::ordered_json& object, std::string where)
      : object_(&object), where_(std::move(where)) {}

  [[nodiscard]] std::string text(std::string_view name);
  [[nodiscard]] std::int64_t whole(std::string_view name, std::int64_t least, std::int64_t most);
  [[nodiscard]] double number(std::string_view name);  // finite
  // null reads as infinity: JSON has no other form for it.
  [[nodiscard]] double number_or_infinity(std::string_view name);
  [[nodiscard]] bool flag(std::string_view name);
  [[nodiscard]] std::vector<double> numbers(std::string_view name);
  [[nodiscard]] std::vector<int> wholes(std::string_view name, int least, int most);
  // The items of a list; empty with a problem when there is none.
  [[nodiscard]] const nlohmann::ordered_json& list(std::string_view name);
  [[nodiscard]] JsonFields object(std::string_view name);
  [[nodiscard]] const nlohmann::ordered_json* any(std::string_view name);

  void refuse(std::string_view name, const std::string& problem);
  [[nodiscard]] std::string path(std::string_view name) const;
  [[nodiscard]] const std::optional<Error>& problem() const { return problem_; }

 private:
  const nlohmann::ordered_json* object_;
  std::string where_;
  std::optional<Error> problem_;
};

// Checks every index and count against the plan: a record that passes can be analysed.
[[nodiscard]] Expected<RunRecord> parse_run(const nlohmann::ordered_json& value,
                                            const std::string& where, const RunSpec& run);

}  // namespace splitwave::experiment
