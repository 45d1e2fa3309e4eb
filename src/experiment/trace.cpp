// Line readers with a named limit on everything. The CSV is read by hand (three fixed columns); a
// JSON line is read by nlohmann-json, without exceptions.
#include "experiment/trace.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/sha256.h"

namespace splitwave::experiment {
namespace {

constexpr std::string_view k_azure_header = "TIMESTAMP,ContextTokens,GeneratedTokens";
constexpr double k_arrival_s_max = 1e9;

// What a refusal quotes of the input: short, and one line whatever it holds.
std::string quoted(std::string_view text) {
  constexpr std::size_t k_quoted_max = 40;
  std::string out = "'";
  for (const char c : text.substr(0, k_quoted_max)) out += c < 0x20 || c == 0x7f ? '?' : c;
  return out + (text.size() > k_quoted_max ? "...'" : "'");
}

struct LineContext {
  const std::string& name;
  std::int64_t line;

  [[nodiscard]] Error error(std::string_view field, const std::string& problem) const {
    return bad_input(name + ":" + std::to_string(line) + ": " + std::string(field) + ": " +
                     problem);
  }
};

Expected<int> parse_tokens(const LineContext& at, std::string_view field, std::string_view text,
                           int least) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < least ||
      value > k_trace_tokens_max) {
    return at.error(field, quoted(text) + " is not a whole number from " + std::to_string(least) +
                               " to " + std::to_string(k_trace_tokens_max));
  }
  return static_cast<int>(value);
}

// Days since 1970-01-01 of a date in the proleptic Gregorian calendar (Hinnant's algorithm).
std::int64_t days_from_civil(std::int64_t year, int month, int day) {
  year -= month <= 2 ? 1 : 0;
  const std::int64_t era = year / 400;
  const std::int64_t year_of_era = year - era * 400;
  const std::int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const std::int64_t day_of_era =
      year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

// "YYYY-MM-DD HH:MM:SS[.fraction]" in seconds.
Expected<double> parse_timestamp(const LineContext& at, std::string_view text) {
  const Error refusal =
      at.error("TIMESTAMP", quoted(text) + " is not YYYY-MM-DD HH:MM:SS.fraction");
  constexpr std::string_view k_pattern = "dddd-dd-dd dd:dd:dd";
  if (text.size() < k_pattern.size()) return refusal;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char want = i < k_pattern.size() ? k_pattern[i] : i == k_pattern.size() ? '.' : 'd';
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (want == 'd' ? !is_digit : text[i] != want) return refusal;
  }
  const auto number = [&](std::size_t first, std::size_t count) {
    int value = 0;
    for (std::size_t i = first; i < first + count; ++i) value = value * 10 + (text[i] - '0');
    return value;
  };
  const int month = number(5, 2);
  const int day = number(8, 2);
  const int hour = number(11, 2);
  const int minute = number(14, 2);
  const int second = number(17, 2);
  if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60) {
    return refusal;
  }
  double fraction = 0;
  double place = 0.1;
  for (std::size_t i = k_pattern.size() + 1; i < text.size(); ++i, place /= 10) {
    fraction += place * (text[i] - '0');
  }
  const std::int64_t days = days_from_civil(number(0, 4), month, day);
  return static_cast<double>(days * 86400 + hour * 3600 + minute * 60 + second) + fraction;
}

// Appends one request; arrivals are kept relative to the first and must not decrease.
Status append(Trace& trace, const LineContext& at, std::string_view arrival_field, double arrival_s,
              double& first_s, int context, int generated) {
  if (static_cast<std::int64_t>(trace.requests.size()) >= k_trace_requests_max) {
    return at.error("line", "more than " + std::to_string(k_trace_requests_max) + " requests");
  }
  if (trace.requests.empty()) first_s = arrival_s;
  const double relative_s = arrival_s - first_s;
  if (!trace.requests.empty() && relative_s < trace.requests.back().arrival_s) {
    return at.error(arrival_field, "arrives before the line above; sort the trace by arrival");
  }
  if (relative_s > k_arrival_s_max) {
    return at.error(arrival_field, "more than 1e9 s after the first request");
  }
  trace.requests.push_back({relative_s, context, generated});
  return {};
}

// Calls read(context, line) for each line; a trailing \r is not part of a line.
template <class Read>
Status for_each_line(std::string_view text, const std::string& name, const Read& read) {
  if (static_cast<std::int64_t>(text.size()) > k_trace_bytes_max) {
    return bad_input(name + ": " + std::to_string(text.size()) + " bytes; at most " +
                     std::to_string(k_trace_bytes_max) + " are accepted");
  }
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view content = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!content.empty() && content.back() == '\r') content.remove_suffix(1);
    const LineContext at{name, line};
    if (static_cast<std::int64_t>(content.size()) > k_trace_line_bytes_max) {
      return at.error("line", "longer than " + std::to_string(k_trace_line_bytes_max) + " bytes");
    }
    if (Status status = read(at, content); !status.ok()) return status;
  }
  return {};
}

Expected<Trace> finished(Trace trace, std::string_view text, const Status& status) {
  if (!status.ok()) return status.error();
  if (trace.requests.empty()) return bad_input(trace.name + ": holds no request");
  trace.sha256 = sha256_hex(text);
  return trace;
}

Expected<int> json_tokens(const LineContext& at, const nlohmann::json& object, const char* field,
                          int least) {
  const auto found = object.find(field);
  if (found == object.end()) return at.error(field, "missing");
  return parse_tokens(at, field,
                      found->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), least);
}

Status read_blocks(const LineContext& at, const nlohmann::json& object,
                   std::vector<std::int64_t>* blocks) {
  const auto found = object.find("hash_ids");
  if (found == object.end()) return {};
  if (!found->is_array() || found->size() > k_trace_blocks_max) {
    return at.error("hash_ids",
                    "is not an array of at most " + std::to_string(k_trace_blocks_max) + " ids");
  }
  for (const auto& id : *found) {
    if (!id.is_number_integer()) return at.error("hash_ids", "holds something that is no integer");
    blocks->push_back(id.get<std::int64_t>());
  }
  return {};
}

}  // namespace

Expected<Trace> parse_azure_csv(std::string_view text, const std::string& name) {
  Trace trace;
  trace.name = name;
  double first_s = 0;
  const Status status =
      for_each_line(text, name, [&](const LineContext& at, std::string_view line) -> Status {
        if (at.line == 1) {
          if (line == k_azure_header) return {};
          return at.error("header", quoted(line) + " is not '" + std::string(k_azure_header) + "'");
        }
        const std::size_t a = line.find(',');
        const std::size_t b = a == line.npos ? a : line.find(',', a + 1);
        if (b == line.npos || line.find(',', b + 1) != line.npos) {
          return at.error("line", quoted(line) + " does not hold three fields separated by commas");
        }
        const auto arrival = parse_timestamp(at, line.substr(0, a));
        if (!arrival.ok()) return arrival.error();
        const auto context = parse_tokens(at, "ContextTokens", line.substr(a + 1, b - a - 1), 0);
        if (!context.ok()) return context.error();
        const auto generated = parse_tokens(at, "GeneratedTokens", line.substr(b + 1), 1);
        if (!generated.ok()) return generated.error();
        return append(trace, at, "TIMESTAMP", *arrival, first_s, *context, *generated);
      });
  return finished(std::move(trace), text, status);
}

Expected<Trace> parse_mooncake_jsonl(std::string_view text, const std::string& name) {
  Trace trace;
  trace.name = name;
  double first_s = 0;
  const Status status =
      for_each_line(text, name, [&](const LineContext& at, std::string_view line) -> Status {
        const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
        if (!object.is_object()) return at.error("line", quoted(line) + " is not a JSON object");
        const auto stamp = object.find("timestamp");
        if (stamp == object.end()) return at.error("timestamp", "missing");
        const double arrival_ms = stamp->is_number() ? stamp->get<double>() : -1;
        if (!(arrival_ms >= 0 && arrival_ms <= k_arrival_s_max * 1e3)) {
          return at.error("timestamp", "is not a number of milliseconds from 0 to 1e12");
        }
        const auto context = json_tokens(at, object, "input_length", 0);
        if (!context.ok()) return context.error();
        const auto generated = json_tokens(at, object, "output_length", 1);
        if (!generated.ok()) return generated.error();
        Status status_of_line =
            append(trace, at, "timestamp", arrival_ms / 1e3, first_s, *context, *generated);
        if (!status_of_line.ok()) return status_of_line;
        return read_blocks(at, object, &trace.requests.back().prefix_blocks);
      });
  return finished(std::move(trace), text, status);
}

Expected<Trace> read_trace(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string extension = file.extension().string();
  if (extension != ".csv" && extension != ".jsonl") {
    return bad_input(path +
                     ": a trace is a .csv file (Azure LLM 2023) or a .jsonl file (Mooncake)");
  }
  const auto text = read_file(path, k_trace_bytes_max);
  if (!text.ok()) return text.error();
  const std::string name = file.filename().string();
  return extension == ".csv" ? parse_azure_csv(*text, name) : parse_mooncake_jsonl(*text, name);
}

}  // namespace splitwave::experiment
