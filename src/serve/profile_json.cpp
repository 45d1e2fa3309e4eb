// Operator times with their shares, and readings of this process. A CPU engine has no SM or memory
// controller counters: those fields are null there.
#include "serve/profile_json.h"

#include <sys/resource.h>

#include "base/json_writer.h"

namespace splitwave::serve {
namespace {

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

std::string profile_json(model::Engine& engine, const std::deque<StepSample>& samples) {
  const std::vector<model::OperatorTime> operators = engine.take_profile();
  double total = 0;
  const model::OperatorTime* most = nullptr;
  for (const model::OperatorTime& o : operators) {
    total += o.seconds;
    if (most == nullptr || o.seconds > most->seconds) most = &o;
  }
  JsonWriter json;
  json.begin_object().key("operators").begin_array();
  for (const model::OperatorTime& o : operators) {
    json.begin_object()
        .field("name", o.name)
        .field("calls", o.calls)
        .field("seconds", o.seconds)
        .field("us_per_call", o.calls > 0 ? o.seconds * 1e6 / static_cast<double>(o.calls) : 0.0)
        .field("share", total > 0 ? o.seconds / total : 0.0)
        .end_object();
  }
  json.end_array();
  if (most != nullptr) json.field("largest", most->name);
  json.key("device").begin_object();
  for (const auto& [name, value] : engine.description()) json.field(name, value);
  json.field("process_cpu_seconds", cpu_seconds());
  json.key("sm_percent").null().key("memory_controller_percent").null().key("power_watts").null();
  json.end_object().key("steps").begin_array();
  for (const StepSample& s : samples) {
    json.begin_row().value(s.step).value(s.decode_rows).value(s.prefill_tokens).value(s.step_ms);
    json.end_array();
  }
  json.end_array();
  json.field("steps_columns", "step, decode_rows, prefill_tokens, step_ms").end_object();
  return json.str();
}

}  // namespace splitwave::serve
