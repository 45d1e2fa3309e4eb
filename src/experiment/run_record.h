// What a run leaves behind, raw: effective configurations, gates, every sample, every round's
// clock. Owns RunRecord and its JSON form (the "runs" of result.json; docs/experiments.md documents
// the schema). Nothing in it is derived: verdict.h derives. Written by the runner with the standard
// library alone; read back by record.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace splitwave {
class JsonWriter;
}

namespace splitwave::experiment {

// The launch configuration that an arm really uses for one stream at one concurrency, read back
// from the object that runs it, never from the plan's text.
struct Echo {
  int arm = 0;
  int concurrency = 0;
  std::string stream;
  std::string backend;
  std::string variant;
  std::string numerics_class;
  std::string isa;
  bool is_exact = true;
  int chunk_rows = 0;
  int block_heads = 0;
  int tile_rows = 0;
  int prefetch = 0;
  int splits = 0;
  int warps = 0;
  int stages = 0;
  int ctas_per_sm = 0;
  int registers = 0;
  int shared_bytes = 0;
  std::int64_t ctas = 0;
  double predicted_us = 0;  // the planner's model, one call

  // Whether two arms do the same at this point, whatever they are called.
  [[nodiscard]] bool is_same_launch(const Echo& other) const {
    return backend == other.backend && variant == other.variant && is_exact == other.is_exact &&
           chunk_rows == other.chunk_rows && block_heads == other.block_heads &&
           tile_rows == other.tile_rows && prefetch == other.prefetch && splits == other.splits &&
           warps == other.warps && stages == other.stages && ctas_per_sm == other.ctas_per_sm;
  }
};

struct GateResult {
  int arm = 0;
  int point = 0;  // index
  std::string stream;
  std::string gate;  // invariance, accuracy, repeat
  bool passed = false;
  double worst = 0;    // accuracy: worst relative L2 of a row and head; else elements that differ
  std::string detail;  // empty when passed: what failed, where, both values
};

// One visit of a slot: microseconds per call of each stream.
struct Sample {
  int round = 0;
  int point = 0;  // index
  int slot = 0;   // schedule.h: 0 incumbent, 1 the incumbent again, i + 1 arm i
  bool mirrored = false;
  std::vector<double> stream_us;
};

struct RoundLog {
  int round = 0;
  double start_s = 0;  // since the run's first round
  double clock_ghz_before = 0;
  double clock_ghz_after = 0;
  double load_average = 0;
};

enum class RunEnd : std::uint8_t {
  all_rounds,   // the fixed number, or the anytime rule's bound
  decided,      // the anytime rule stopped early
  interrupted,  // Ctrl-C or SIGTERM: the rounds so far are whole and valid, the plan was not met
  error,        // the backend refused a call, a device vanished
  no_arm_left,  // every arm but the incumbent failed its gates, or the incumbent did
};

[[nodiscard]] const char* name_of(RunEnd end);

// Arm i's prediction of the step time at each concurrency 1..rows_max, by the planner's model.
struct Prediction {
  int arm = 0;
  std::vector<double> step_us;  // [concurrency - 1]
  std::vector<int>
      same_as_incumbent;  // [concurrency - 1]: 1 where every stream's launch is the same
};

struct RunRecord {
  std::string sealed_sha256;  // of the sealed form of what was run
  std::string started_utc;
  RunEnd end = RunEnd::error;
  std::string end_detail;  // the error's words
  int rounds_planned = 0;
  double gates_s = 0;
  double rounds_s = 0;
  std::string backend;         // cpu or cuda
  std::string backend_reason;  // why it was chosen
  std::string device;
  std::string clock_source;
  std::string fingerprint_before;  // JSON text of measure::Fingerprint
  std::string fingerprint_after;
  std::string executable_sha256;
  std::vector<int> calls_per_sample;    // one a point
  std::vector<int> index_sets;          // one a point: disjoint sets that the calls rotate through
  std::vector<std::uint8_t> arm_ended;  // one an arm: 1 when a gate ended it
  std::vector<Echo> echoes;
  std::vector<Prediction> predictions;
  std::vector<GateResult> gates;
  std::vector<RoundLog> rounds;
  std::vector<Sample> samples;

  [[nodiscard]] bool is_complete() const {
    return end == RunEnd::all_rounds || end == RunEnd::decided;
  }
};

void write_json(JsonWriter& json, const RunRecord& run);

}  // namespace splitwave::experiment
