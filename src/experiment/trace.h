// Serving traces: what real requests arrived, how long they were. Owns Trace and the readers of the
// Azure LLM 2023 CSV and the Mooncake FAST'25 JSON lines. Every size is bounded; an error names
// file, line, field, value and what would work. Called by the workload builder; fuzzed by
// tests/fuzz.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "splitwave/status.h"

namespace splitwave::experiment {

inline constexpr std::int64_t k_trace_bytes_max = std::int64_t{256} << 20;
inline constexpr std::int64_t k_trace_requests_max = 4'000'000;
inline constexpr std::int64_t k_trace_line_bytes_max = 1 << 20;
inline constexpr std::int64_t k_trace_tokens_max = 1 << 24;  // of one request
inline constexpr std::size_t k_trace_blocks_max = 1 << 15;   // of one request

struct TraceRequest {
  double arrival_s = 0;  // since the first request; never decreases
  int context_tokens = 0;
  int generated_tokens = 0;  // >= 1
  // Mooncake: ids of the prompt's blocks of 512 tokens; equal leading ids are a shared prefix.
  std::vector<std::int64_t> prefix_blocks = {};
};

struct Trace {
  std::string name;    // the file's name without its folder
  std::string sha256;  // of the file's bytes
  std::vector<TraceRequest> requests;
};

// Header "TIMESTAMP,ContextTokens,GeneratedTokens", then "YYYY-MM-DD HH:MM:SS.fffffff,int,int".
[[nodiscard]] Expected<Trace> parse_azure_csv(std::string_view text, const std::string& name);

// One object a line with timestamp (ms), input_length, output_length and, where it is given,
// hash_ids; other keys are ignored.
[[nodiscard]] Expected<Trace> parse_mooncake_jsonl(std::string_view text, const std::string& name);

// Chooses the reader by extension: .csv or .jsonl.
[[nodiscard]] Expected<Trace> read_trace(const std::string& path);

}  // namespace splitwave::experiment
