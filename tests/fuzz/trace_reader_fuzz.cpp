// Fuzzes the trace readers: any bytes give a trace within the named limits or an error of one line.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "experiment/trace.h"

namespace {

using namespace splitwave;
using namespace splitwave::experiment;

void check(const Expected<Trace>& trace) {
  if (!trace.ok()) {
    const std::string& message = trace.error().message;
    SPLITWAVE_CHECK(message.size() < 1000, "an error as long as the input");
    SPLITWAVE_CHECK(std::all_of(message.begin(), message.end(),
                                [](char c) { return static_cast<unsigned char>(c) >= 0x20; }),
                    "an error that holds control characters of the input");
    return;
  }
  SPLITWAVE_CHECK(!trace->requests.empty(), "an empty trace");
  double last_s = 0;
  for (const TraceRequest& r : trace->requests) {
    SPLITWAVE_CHECK(r.arrival_s >= last_s && r.arrival_s <= 1e9, "arrivals out of order");
    SPLITWAVE_CHECK(r.context_tokens >= 0 && r.context_tokens <= k_trace_tokens_max, "context");
    SPLITWAVE_CHECK(r.generated_tokens >= 1 && r.generated_tokens <= k_trace_tokens_max,
                    "generated");
    last_s = r.arrival_s;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(parse_azure_csv(text, "t.csv"));
  check(parse_azure_csv("TIMESTAMP,ContextTokens,GeneratedTokens\n" + std::string(text), "t.csv"));
  check(parse_mooncake_jsonl(text, "t.jsonl"));
  return 0;
}
