// The CSV reader by hand, the JSON reader by nlohmann-json.
#include "load/step_samples.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files.h"

namespace splitwave::load {
namespace {

using Samples = std::vector<stats::StepSample>;

constexpr std::size_t k_shown_value_max = 40;  // of a bad value in a message
constexpr int k_concurrency_max = 1'000'000;

std::string shown(std::string_view value) {
  std::string text = "'" + std::string(value.substr(0, k_shown_value_max)) + "'";
  return value.size() > k_shown_value_max ? text + "..." : text;
}

std::string_view stripped(std::string_view text) {
  const auto start = text.find_first_not_of(" \t\r");
  if (start == std::string_view::npos) return {};
  return text.substr(start, text.find_last_not_of(" \t\r") - start + 1);
}

// One line's fields; quotes as in RFC 4180, within the line. False when a quote is not closed.
bool split_fields(std::string_view line, std::vector<std::string>& fields) {
  fields.clear();
  std::string field;
  bool in_quotes = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (in_quotes) {
      const bool is_doubled = c == '"' && i + 1 < line.size() && line[i + 1] == '"';
      if (c == '"' && !is_doubled) {
        in_quotes = false;
        continue;
      }
      i += is_doubled;
      field += c;
    } else if (c == '"' && stripped(field).empty()) {
      in_quotes = true;
      field.clear();
    } else if (c == ',') {
      fields.emplace_back(stripped(field));
      field.clear();
    } else {
      field += c;
    }
  }
  fields.emplace_back(stripped(field));
  return !in_quotes;
}

template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

constexpr std::array<std::string_view, 3> k_columns = {"session", "concurrency", "step_ms"};
constexpr const char* k_concurrency_works = "a whole number from 1 to 1000000";
constexpr const char* k_step_works = "a number above 0, in milliseconds";

struct Header {
  std::array<std::size_t, 3> at{};
  std::size_t count = 0;
};

Expected<Header> parse_header(const std::vector<std::string>& fields, const std::string& place) {
  Header header{.at = {}, .count = fields.size()};
  for (std::size_t c = 0; c < k_columns.size(); ++c) {
    const std::string name(k_columns[c]);
    const auto found = std::count(fields.begin(), fields.end(), name);
    if (found != 1) {
      return bad_input(place + ": the header names the column " + name + " " +
                       std::to_string(found) +
                       " times; what works: a first line with session,concurrency,step_ms");
    }
    header.at[c] =
        static_cast<std::size_t>(std::find(fields.begin(), fields.end(), name) - fields.begin());
  }
  return header;
}

Expected<stats::StepSample> parse_row(const Header& header, const std::vector<std::string>& fields,
                                      const std::string& place) {
  if (fields.size() != header.count) {
    return bad_input(place + ": " + std::to_string(fields.size()) +
                     " fields; what works: " + std::to_string(header.count) + ", as in the header");
  }
  stats::StepSample sample;
  sample.session = fields[header.at[0]];
  if (sample.session.empty()) {
    return bad_input(place +
                     ": session is empty; what works: any name, the same for the samples "
                     "of one server start");
  }
  const std::string& concurrency = fields[header.at[1]];
  if (!parse_number(concurrency, sample.concurrency) || sample.concurrency < 1 ||
      sample.concurrency > k_concurrency_max) {
    return bad_input(place + ": concurrency=" + shown(concurrency) +
                     "; what works: " + k_concurrency_works);
  }
  const std::string& step = fields[header.at[2]];
  if (!parse_number(step, sample.step_ms) || !(sample.step_ms > 0) ||
      !std::isfinite(sample.step_ms)) {
    return bad_input(place + ": step_ms=" + shown(step) + "; what works: " + k_step_works);
  }
  return sample;
}

// --- JSON
// ------------------------------------------------------------------------------------------

using Json = nlohmann::json;

Error bad_field(const std::string& name, const std::string& field, const Json& value,
                const std::string& works) {
  return bad_input(name + ": " + field + "=" +
                   shown(value.dump(-1, ' ', false, Json::error_handler_t::replace)) +
                   "; what works: " + works);
}

const Json& member(const Json& object, const char* key) {
  static const Json nothing;
  const auto at = object.find(key);
  return at == object.end() ? nothing : *at;
}

Status append_point(const Json& point, const std::string& field, const std::string& name,
                    Samples& samples) {
  if (!point.is_object()) return bad_field(name, field, point, "an object");
  const Json& concurrency = member(point, "concurrency");
  if (!concurrency.is_number_integer() || concurrency < 1 || concurrency > k_concurrency_max) {
    return bad_field(name, field + ".concurrency", concurrency, k_concurrency_works);
  }
  const Json& list = member(point, "samples");
  if (!list.is_array()) return bad_field(name, field + ".samples", list, "a list of samples");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string at = field + ".samples[" + std::to_string(i) + "]";
    if (!list[i].is_object())
      return bad_field(name, at, list[i], "{\"session\": .., \"step_ms\": ..}");
    const Json& session = member(list[i], "session");
    const Json& step = member(list[i], "step_ms");
    stats::StepSample sample{.session = {}, .concurrency = concurrency.get<int>(), .step_ms = 0};
    if (session.is_string() && !session.get_ref<const std::string&>().empty()) {
      sample.session = session.get<std::string>();
    } else if (session.is_number_integer()) {
      sample.session = session.dump();
    } else {
      return bad_field(name, at + ".session", session, "a name or a whole number");
    }
    if (step.is_number()) sample.step_ms = step.get<double>();
    if (!(sample.step_ms > 0) || !std::isfinite(sample.step_ms)) {
      return bad_field(name, at + ".step_ms", step, k_step_works);
    }
    samples.push_back(std::move(sample));
  }
  return {};
}

}  // namespace

Expected<Samples> parse_step_csv(std::string_view text, const std::string& name) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  Samples samples;
  std::optional<Header> header;
  std::vector<std::string> fields;
  int number = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string place = name + ":" + std::to_string(++number);
    if (stripped(line).empty() || stripped(line).front() == '#') continue;
    if (!split_fields(line, fields)) {
      return bad_input(place + ": a quote is opened and not closed: " + shown(stripped(line)) +
                       "; what works: quotes around a whole field, doubled inside it");
    }
    if (!header) {
      const Expected<Header> parsed = parse_header(fields, place);
      if (!parsed) return parsed.error();
      header = *parsed;
      continue;
    }
    Expected<stats::StepSample> sample = parse_row(*header, fields, place);
    if (!sample) return sample.error();
    samples.push_back(std::move(*sample));
  }
  if (samples.empty()) {
    return bad_input(name +
                     " holds no samples; what works: a line session,concurrency,step_ms and "
                     "a line for each step below it");
  }
  return samples;
}

Expected<Samples> parse_load_json(std::string_view text, const std::string& name) {
  Json document;
  try {
    document = Json::parse(text.begin(), text.end());
  } catch (const Json::exception& e) {
    return bad_input(name + ": not JSON: " + e.what());
  }
  const Json& points = document.is_object() ? member(document, "points") : document;
  if (!document.is_object() || !points.is_array()) {
    return bad_field(name, "points", points, "the list that `splitwave load --json` writes");
  }
  Samples samples;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Status appended =
        append_point(points[i], "points[" + std::to_string(i) + "]", name, samples);
    if (!appended) return appended.error();
  }
  if (samples.empty()) {
    return bad_input(name +
                     ": points[].samples hold no samples; what works: a load run against a "
                     "server that reports its steps");
  }
  return samples;
}

Expected<Samples> read_step_samples(const std::string& path) {
  const Expected<std::string> text = read_file(path, k_samples_file_bytes_max);
  if (!text) return text.error();
  const auto first = text->find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && (*text)[first] == '{';
  return is_json ? parse_load_json(*text, path) : parse_step_csv(*text, path);
}

}  // namespace splitwave::load
