// Writes and verifies the runner's file.
#include "experiment/runner_output.h"

#include "base/json_writer.h"
#include "base/sha256.h"

namespace splitwave::experiment {
namespace {
constexpr std::string_view k_mark = "sha256 ";
}

std::string runner_output(const std::string& sealed_text, const RunRecord& run) {
  JsonWriter json;
  json.begin_object()
      .field("schema", k_runner_schema)
      .field("version", 1)
      .field("sealed_text", sealed_text)
      .key("run");
  write_json(json, run);
  json.end_object();
  const std::string text = json.str();
  return text + std::string(k_mark) + sha256_hex(text) + "\n";
}

Expected<std::string_view> verified_document(std::string_view text, const std::string& name) {
  const std::size_t tail = k_mark.size() + 64 + 1;
  if (text.size() > tail) {
    const std::string_view document = text.substr(0, text.size() - tail);
    const std::string_view last = text.substr(document.size());
    if (last.substr(0, k_mark.size()) == k_mark && last.back() == '\n' &&
        last.substr(k_mark.size(), 64) == sha256_hex(document)) {
      return document;
    }
  }
  return bad_input(name + ": its SHA-256 does not match its content: damaged, edited, or not the " +
                   "output of splitwave-runner");
}

}  // namespace splitwave::experiment
