// The file that the stand-alone runner writes: a run with the sealed plan that it executed, and its
// hash. Owns the format; standard library only. Read back by `ab import`.
//
// One JSON document {"schema", "version", "sealed_text", "run"}, then one line "sha256 HEX" over
// every byte before it.
#pragma once

#include <string>
#include <string_view>

#include "experiment/run_record.h"
#include "splitwave/status.h"

namespace splitwave::experiment {

inline constexpr const char* k_runner_schema = "splitwave-run";

[[nodiscard]] std::string runner_output(const std::string& sealed_text, const RunRecord& run);

// The JSON document, after its hash was verified.
[[nodiscard]] Expected<std::string_view> verified_document(std::string_view text,
                                                           const std::string& name);

}  // namespace splitwave::experiment
