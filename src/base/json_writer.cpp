// Streaming JSON: two-space indent, shortest round-trip numbers.
#include "base/json_writer.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/check.h"

namespace splitwave {

std::string json_escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char raw : text) {
    const auto c = static_cast<unsigned char>(raw);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (c < 0x20) {
          char buffer[8];
          std::snprintf(buffer, sizeof buffer, "\\u%04x", c);
          out += buffer;
        } else {
          out += raw;
        }
    }
  }
  return out;
}

void JsonWriter::newline_indent() {
  text_ += '\n';
  text_.append(2 * levels_.size(), ' ');
}

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (levels_.empty()) return;
  SPLITWAVE_CHECK(levels_.back().is_array, "a value inside an object needs a key");
  if (levels_.back().has_items) text_ += ',';
  const bool is_first = !levels_.back().has_items;
  levels_.back().has_items = true;
  if (!levels_.back().is_row) {
    newline_indent();
  } else if (!is_first) {
    text_ += ' ';
  }
}

JsonWriter& JsonWriter::begin_object() {
  separate();
  text_ += '{';
  levels_.push_back({.is_array = false});
  return *this;
}

JsonWriter& JsonWriter::begin_array() {
  separate();
  text_ += '[';
  levels_.push_back({.is_array = true});
  return *this;
}

JsonWriter& JsonWriter::begin_row() {
  separate();
  text_ += '[';
  levels_.push_back({.is_array = true, .is_row = true});
  return *this;
}

JsonWriter& JsonWriter::end_object() {
  SPLITWAVE_CHECK(!levels_.empty() && !levels_.back().is_array, "end_object without begin_object");
  const bool had_items = levels_.back().has_items;
  levels_.pop_back();
  if (had_items) newline_indent();
  text_ += '}';
  return *this;
}

JsonWriter& JsonWriter::end_array() {
  SPLITWAVE_CHECK(!levels_.empty() && levels_.back().is_array, "end_array without begin_array");
  const bool had_lines = levels_.back().has_items && !levels_.back().is_row;
  levels_.pop_back();
  if (had_lines) newline_indent();
  text_ += ']';
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  SPLITWAVE_CHECK(!levels_.empty() && !levels_.back().is_array, "a key outside an object");
  if (levels_.back().has_items) text_ += ',';
  levels_.back().has_items = true;
  newline_indent();
  text_ += '"' + json_escape(name) + "\": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  text_ += '"' + json_escape(text) + '"';
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  separate();
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  text_.append(buffer, end);
  return *this;
}

JsonWriter& JsonWriter::value(std::int64_t number) {
  separate();
  text_ += std::to_string(number);
  return *this;
}

JsonWriter& JsonWriter::value(bool flag) {
  separate();
  text_ += flag ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  text_ += json;
  return *this;
}

JsonWriter& JsonWriter::null() {
  separate();
  text_ += "null";
  return *this;
}

std::string JsonWriter::str() const {
  SPLITWAVE_CHECK(levels_.empty(), "an object or array was not ended");
  return text_ + '\n';
}

}  // namespace splitwave
