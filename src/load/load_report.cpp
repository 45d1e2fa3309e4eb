// Quantiles are the project's (stats/quantiles.h).
#include "load/load_report.h"

#include <cstdio>

#include "base/json_writer.h"
#include "base/text_table.h"
#include "stats/quantiles.h"

namespace splitwave::load {
namespace {

void write_quantiles(JsonWriter* json, const char* name, const std::vector<double>& values) {
  json->key(name).begin_object();
  for (const auto& [key, p] : {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}}) {
    if (values.empty()) {
      json->key(key).null();
    } else {
      json->field(key, stats::quantile(values, p));
    }
  }
  json->end_object();
}

void write_point(JsonWriter* json, const LoadPoint& point) {
  json->begin_object();
  json->field("concurrency", point.concurrency);
  json->field("tok_s", point.tok_s);
  json->field("prompt_tok_s", point.prompt_tok_s);
  json->field("mean_in_flight", point.mean_in_flight);
  json->field("requests", point.requests);
  write_quantiles(json, "ttft_ms", point.ttft_ms);
  write_quantiles(json, "tpot_ms", point.tpot_ms);
  write_quantiles(json, "itl_ms", point.itl_ms);
  write_quantiles(json, "e2e_ms", point.e2e_ms);
  json->key("step_hz");
  if (point.step_hz) {
    json->value(*point.step_hz);
  } else {
    json->null();
  }
  json->field("step_source", point.step_source);
  json->field("errors", point.errors);
  json->key("error_examples").begin_array();
  for (const std::string& example : point.error_examples) json->value(example);
  json->end_array();
  json->field("cached_prompt_tokens", point.cached_prompt_tokens);
  json->key("samples").begin_array();
  for (const StepTime& sample : point.samples) {
    json->begin_object();
    json->field("session", std::to_string(sample.session));
    json->field("step_ms", sample.step_ms);
    json->end_object();
  }
  json->end_array().end_object();
}

std::string number(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string cell(const std::vector<double>& values, double p) {
  return values.empty() ? "-" : number("%.1f", stats::quantile(values, p));
}

}  // namespace

std::string load_json(const LoadReport& report) {
  const LoadOptions& o = *report.options;
  JsonWriter json;
  json.begin_object();
  json.field("url", o.target.url);
  json.field("model", o.target.model);
  json.field("mode", report.trace.empty() ? "closed" : "open");
  if (!report.trace.empty()) json.field("trace", report.trace);
  json.field("prompt_tokens", o.prompt_tokens);
  json.field("output_tokens", o.output_tokens);
  json.field("warmup_s", o.warmup_s);
  json.field("window_s", o.window_s);
  json.field("sessions", o.sessions);
  json.field("seed", static_cast<std::int64_t>(o.seed));
  json.key("points").begin_array();
  for (const LoadPoint& point : report.points) write_point(&json, point);
  json.end_array();
  json.field("scales_monotonically", report.scaling_violations.empty());
  json.key("scaling_violations").begin_array();
  for (const std::string& violation : report.scaling_violations) json.value(violation);
  json.end_array().end_object();
  return json.str();
}

std::string load_table(const LoadReport& report) {
  TextTable table({"C", "tok/s", "requests", "errors", "TTFT p50", "p99 ms", "TPOT p50", "p99 ms",
                   "ITL p99", "E2E p50", "p99 ms", "steps/s"});
  for (const LoadPoint& p : report.points) {
    table.add_row({std::to_string(p.concurrency), number("%.1f", p.tok_s),
                   std::to_string(p.requests), std::to_string(p.errors), cell(p.ttft_ms, 0.5),
                   cell(p.ttft_ms, 0.99), cell(p.tpot_ms, 0.5), cell(p.tpot_ms, 0.99),
                   cell(p.itl_ms, 0.99), cell(p.e2e_ms, 0.5), cell(p.e2e_ms, 0.99),
                   p.step_hz ? number("%.1f", *p.step_hz) : "-"});
  }
  std::string out = table.str();
  for (const LoadPoint& p : report.points) {
    for (const std::string& example : p.error_examples) out += "error: " + example + "\n";
  }
  for (const std::string& v : report.scaling_violations) out += "does not scale: " + v + "\n";
  return out;
}

}  // namespace splitwave::load
