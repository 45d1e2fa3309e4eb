// Getters, one shape each.
#include "experiment/json_fields.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace splitwave::experiment {

using json = nlohmann::ordered_json;

std::string JsonFields::path(std::string_view name) const {
  return where_ + (where_.find(": ") == std::string::npos ? ": " : ".") + std::string(name);
}

void JsonFields::refuse(std::string_view name, const std::string& problem) {
  if (!problem_) problem_ = bad_input(path(name) + ": " + problem);
}

const json* JsonFields::any(std::string_view name) {
  const auto found = object_->find(name);
  if (found != object_->end()) return &*found;
  refuse(name, "missing");
  return nullptr;
}

std::string JsonFields::text(std::string_view name) {
  const json* value = any(name);
  if (value == nullptr) return {};
  if (!value->is_string()) {
    refuse(name, "is not a text");
    return {};
  }
  return value->get<std::string>();
}

std::int64_t JsonFields::whole(std::string_view name, std::int64_t least, std::int64_t most) {
  const json* value = any(name);
  if (value == nullptr) return least;
  const std::int64_t number = value->is_number_integer() ? value->get<std::int64_t>() : least - 1;
  if (number < least || number > most) {
    refuse(name,
           "is not a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    return least;
  }
  return number;
}

double JsonFields::number(std::string_view name) {
  const json* value = any(name);
  if (value == nullptr) return 0;
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    refuse(name, "is not a number");
    return 0;
  }
  return value->get<double>();
}

double JsonFields::number_or_infinity(std::string_view name) {
  const json* value = any(name);
  if (value != nullptr && value->is_null()) return std::numeric_limits<double>::infinity();
  return number(name);
}

bool JsonFields::flag(std::string_view name) {
  const json* value = any(name);
  if (value != nullptr && value->is_boolean()) return value->get<bool>();
  refuse(name, "is neither true nor false");
  return false;
}

const json& JsonFields::list(std::string_view name) {
  static const json empty = json::array();
  const json* value = any(name);
  if (value == nullptr) return empty;
  if (!value->is_array()) {
    refuse(name, "is not a list");
    return empty;
  }
  return *value;
}

std::vector<double> JsonFields::numbers(std::string_view name) {
  std::vector<double> out;
  for (const json& item : list(name)) {
    if (!item.is_number()) {
      refuse(name, "holds something but numbers");
      return {};
    }
    out.push_back(item.get<double>());
  }
  return out;
}

std::vector<int> JsonFields::wholes(std::string_view name, int least, int most) {
  std::vector<int> out;
  for (const json& item : list(name)) {
    const std::int64_t value =
        item.is_number_integer() ? item.get<std::int64_t>() : std::int64_t{least} - 1;
    if (value < least || value > most) {
      refuse(name, "holds something but whole numbers from " + std::to_string(least) + " to " +
                       std::to_string(most));
      return {};
    }
    out.push_back(static_cast<int>(value));
  }
  return out;
}

JsonFields JsonFields::object(std::string_view name) {
  static const json empty = json::object();
  const json* value = any(name);
  if (value != nullptr && value->is_object()) return {*value, path(name)};
  refuse(name, "is not an object");
  return {empty, path(name)};
}

}  // namespace splitwave::experiment
