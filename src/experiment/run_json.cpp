// RunRecord as JSON. Raw samples are rows, so that a record of 10,000 samples stays readable and
// diffable.
#include "base/json_writer.h"
#include "experiment/run_record.h"

namespace splitwave::experiment {
namespace {

template <class Numbers>
void write_row(JsonWriter& json, const char* name, const Numbers& numbers) {
  json.key(name).begin_row();
  for (const auto n : numbers) json.value(n);
  json.end_array();
}

void write_echo(JsonWriter& json, const Echo& e) {
  json.begin_object()
      .field("arm", e.arm)
      .field("concurrency", e.concurrency)
      .field("stream", e.stream)
      .field("backend", e.backend)
      .field("variant", e.variant)
      .field("numerics_class", e.numerics_class)
      .field("isa", e.isa)
      .field("exact", e.is_exact)
      .field("chunk_rows", e.chunk_rows)
      .field("block_heads", e.block_heads)
      .field("tile_rows", e.tile_rows)
      .field("prefetch", e.prefetch)
      .field("splits", e.splits)
      .field("warps", e.warps)
      .field("stages", e.stages)
      .field("ctas_per_sm", e.ctas_per_sm)
      .field("registers", e.registers)
      .field("shared_bytes", e.shared_bytes)
      .field("ctas", e.ctas)
      .field("predicted_us", e.predicted_us)
      .end_object();
}

void write_gate(JsonWriter& json, const GateResult& g) {
  json.begin_object()
      .field("arm", g.arm)
      .field("point", g.point)
      .field("stream", g.stream)
      .field("gate", g.gate)
      .field("passed", g.passed)
      .field("worst", g.worst)
      .field("detail", g.detail)
      .end_object();
}

void write_rounds(JsonWriter& json, const RunRecord& run) {
  json.key("round_columns").begin_row();
  for (const char* c :
       {"round", "start_s", "clock_ghz_before", "clock_ghz_after", "load_average"}) {
    json.value(c);
  }
  json.end_array().key("rounds").begin_array();
  for (const RoundLog& r : run.rounds) {
    json.begin_row().value(r.round).value(r.start_s).value(r.clock_ghz_before);
    json.value(r.clock_ghz_after).value(r.load_average).end_array();
  }
  json.end_array();
  json.key("sample_columns").begin_row();
  for (const char* c : {"round", "point", "slot", "mirrored", "stream_us..."}) json.value(c);
  json.end_array().key("samples").begin_array();
  for (const Sample& s : run.samples) {
    json.begin_row().value(s.round).value(s.point).value(s.slot).value(s.mirrored ? 1 : 0);
    for (const double us : s.stream_us) json.value(us);
    json.end_array();
  }
  json.end_array();
}

}  // namespace

const char* name_of(RunEnd end) {
  constexpr const char* k_names[] = {"all_rounds", "decided", "interrupted", "error",
                                     "no_arm_left"};
  return k_names[static_cast<int>(end)];
}

void write_json(JsonWriter& json, const RunRecord& run) {
  json.begin_object()
      .field("sealed_sha256", run.sealed_sha256)
      .field("started_utc", run.started_utc)
      .field("complete", run.is_complete())
      .field("end", name_of(run.end))
      .field("end_detail", run.end_detail)
      .field("rounds_planned", run.rounds_planned)
      .field("rounds_done", static_cast<int>(run.rounds.size()))
      .field("gates_s", run.gates_s)
      .field("rounds_s", run.rounds_s)
      .field("backend", run.backend)
      .field("backend_reason", run.backend_reason)
      .field("device", run.device)
      .field("clock_source", run.clock_source)
      .field("executable_sha256", run.executable_sha256);
  json.key("fingerprint_before").raw(run.fingerprint_before);
  json.key("fingerprint_after").raw(run.fingerprint_after);
  write_row(json, "calls_per_sample", run.calls_per_sample);
  write_row(json, "index_sets", run.index_sets);
  json.key("arm_ended").begin_row();
  for (const std::uint8_t ended : run.arm_ended) json.value(static_cast<int>(ended));
  json.end_array();
  json.key("echoes").begin_array();
  for (const Echo& e : run.echoes) write_echo(json, e);
  json.end_array().key("predictions").begin_array();
  for (const Prediction& p : run.predictions) {
    json.begin_object().field("arm", p.arm);
    write_row(json, "step_us", p.step_us);
    write_row(json, "same_as_incumbent", p.same_as_incumbent);
    json.end_object();
  }
  json.end_array().key("gates").begin_array();
  for (const GateResult& g : run.gates) write_gate(json, g);
  json.end_array();
  write_rounds(json, run);
  json.end_object();
}

}  // namespace splitwave::experiment
