// Any output of a model: the parser gives the same events whole and cut, loses no text where there
// is no DSML, and the arguments of every complete call are JSON. The first byte chooses the options
// and where the cuts fall. Run by scripts/fuzz.sh.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "serve/tool_stream.h"

namespace {

using splitwave::serve::OutputEvent;
using splitwave::serve::OutputParser;
using Kind = OutputEvent::Kind;

std::vector<OutputEvent> joined(const std::vector<OutputEvent>& events) {
  std::vector<OutputEvent> out;
  for (const OutputEvent& event : events) {
    const bool is_text = event.kind != Kind::tool_begin && event.kind != Kind::tool_end;
    if (is_text && !out.empty() && out.back().kind == event.kind && out.back().tool == event.tool) {
      out.back().text += event.text;
    } else {
      out.push_back(event);
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const splitwave::serve::OutputParserOptions options{(data[0] & 1) != 0, (data[0] & 2) != 0};
  const std::size_t step = 1 + (data[0] >> 2);

  OutputParser whole(options);
  std::vector<OutputEvent> events;
  whole.push(text, &events);
  whole.finish(&events);

  OutputParser cut(options);
  std::vector<OutputEvent> cut_events;
  for (std::size_t at = 0; at < text.size(); at += step) {
    cut.push(text.substr(at, step), &cut_events);
  }
  cut.finish(&cut_events);
  if (joined(events) != joined(cut_events) || whole.malformed() != cut.malformed()) std::abort();

  int complete = 0;
  std::string arguments;
  for (const OutputEvent& event : events) {
    if (event.kind == Kind::tool_begin) arguments.clear();
    if (event.kind == Kind::tool_arguments) arguments += event.text;
    if (event.kind != Kind::tool_end) continue;
    ++complete;
    // A model's text is UTF-8 when it gets here; a fuzzer's need not be.
    const bool is_ascii = std::all_of(arguments.begin(), arguments.end(),
                                      [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    if (is_ascii && !nlohmann::json::accept(arguments)) std::abort();
  }
  if (complete != whole.tool_calls_complete()) std::abort();
  return 0;
}
