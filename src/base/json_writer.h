// JSON out, with nothing but the standard library, so that the GPU tools can write records on a
// bare machine. Owns JsonWriter: a streaming writer that keeps commas and nesting right. NaN and
// inf have no JSON form: they are written as null.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace splitwave {

class JsonWriter {
 public:
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  // An array whose items stay on one line: a row of raw samples, a list of integers.
  JsonWriter& begin_row();
  JsonWriter& key(std::string_view name);
  // A finished JSON value, taken as it stands.
  JsonWriter& raw(std::string_view json);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(double number);
  JsonWriter& value(std::int64_t number);
  JsonWriter& value(int number) { return value(static_cast<std::int64_t>(number)); }
  JsonWriter& value(bool flag);
  JsonWriter& null();

  template <class T>
  JsonWriter& field(std::string_view name, const T& v) {
    key(name);
    return value(v);
  }

  // The finished document, with a trailing newline. Every begin must have been ended.
  [[nodiscard]] std::string str() const;

 private:
  void separate();
  void newline_indent();

  struct Level {
    bool is_array = false;
    bool has_items = false;
    bool is_row = false;
  };
  std::string text_;
  std::vector<Level> levels_;
  bool after_key_ = false;
};

// The text between quotes: escapes what JSON requires.
[[nodiscard]] std::string json_escape(std::string_view text);

}  // namespace splitwave
