// Reading decode-step samples for `splitwave fit`. Owns the two input forms: a CSV with the columns
// session, concurrency and step_ms (others are ignored), and the JSON that the load generator
// writes (points[].concurrency, points[].samples[].session and .step_ms). Errors name the line or
// the field, the value and what would work. Called by the command line; fits nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "splitwave/status.h"
#include "stats/step_model.h"

namespace splitwave::load {

inline constexpr std::int64_t k_samples_file_bytes_max = std::int64_t{256} << 20;

// JSON when the first character that is not white space is "{", CSV otherwise. bad_input for a file
// that is missing, too long, malformed or without samples.
[[nodiscard]] Expected<std::vector<stats::StepSample>> read_step_samples(const std::string& path);

// The same on text in memory; `name` stands for the file in messages. CSV: comma-separated, RFC
// 4180 quotes, LF or CRLF, a header line; empty lines and lines that start with "#" are skipped.
[[nodiscard]] Expected<std::vector<stats::StepSample>> parse_step_csv(std::string_view text,
                                                                      const std::string& name);
[[nodiscard]] Expected<std::vector<stats::StepSample>> parse_load_json(std::string_view text,
                                                                       const std::string& name);

}  // namespace splitwave::load
