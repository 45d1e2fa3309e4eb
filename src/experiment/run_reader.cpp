// The raw part of a run, read back and checked against the plan that it ran.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "experiment/json_fields.h"
#include "experiment/schedule.h"

namespace splitwave::experiment {
namespace {

using json = nlohmann::ordered_json;

constexpr int k_int_max = 1 << 30;

std::string element(const std::string& where, const char* list, std::size_t i) {
  return where + "." + list + "[" + std::to_string(i) + "]";
}

class RunReader {
 public:
  RunReader(const json& value, std::string where, const RunSpec& run)
      : json_(value), where_(std::move(where)), run_(run), fields_(json_, where_) {}

  Expected<RunRecord> read() {
    read_head();
    read_lists();
    if (fields_.problem()) return *fields_.problem();
    if (Status s = read_echoes(); !s.ok()) return s.error();
    if (Status s = read_predictions(); !s.ok()) return s.error();
    if (Status s = read_gates(); !s.ok()) return s.error();
    if (Status s = read_rounds(); !s.ok()) return s.error();
    if (Status s = read_samples(); !s.ok()) return s.error();
    if (fields_.problem()) return *fields_.problem();
    return std::move(record_);
  }

 private:
  [[nodiscard]] int arms() const { return static_cast<int>(run_.arms.size()); }
  [[nodiscard]] int points() const { return static_cast<int>(run_.points.size()); }

  void read_head() {
    record_.sealed_sha256 = fields_.text("sealed_sha256");
    record_.started_utc = fields_.text("started_utc");
    const std::string end = fields_.text("end");
    bool is_known = false;
    for (const RunEnd e : {RunEnd::all_rounds, RunEnd::decided, RunEnd::interrupted, RunEnd::error,
                           RunEnd::no_arm_left}) {
      if (end != name_of(e)) continue;
      record_.end = e;
      is_known = true;
    }
    if (!is_known) fields_.refuse("end", "'" + end.substr(0, 40) + "' is unknown");
    if (fields_.flag("complete") != record_.is_complete()) {
      fields_.refuse("complete", "contradicts end");
    }
    record_.end_detail = fields_.text("end_detail");
    record_.rounds_planned = static_cast<int>(fields_.whole("rounds_planned", 1, k_rounds_max));
    record_.gates_s = fields_.number("gates_s");
    record_.rounds_s = fields_.number("rounds_s");
    record_.backend = fields_.text("backend");
    record_.backend_reason = fields_.text("backend_reason");
    record_.device = fields_.text("device");
    record_.clock_source = fields_.text("clock_source");
    record_.executable_sha256 = fields_.text("executable_sha256");
    record_.fingerprint_before = compact("fingerprint_before");
    record_.fingerprint_after = compact("fingerprint_after");
  }

  std::string compact(const char* name) {
    const json* value = fields_.any(name);
    if (value == nullptr || !value->is_object()) {
      fields_.refuse(name, "is not an object");
      return "{}";
    }
    return value->dump(-1, ' ', false, json::error_handler_t::replace);
  }

  void read_lists() {
    record_.calls_per_sample = fields_.wholes("calls_per_sample", 1, k_int_max);
    record_.index_sets = fields_.wholes("index_sets", 1, k_int_max);
    for (const int ended : fields_.wholes("arm_ended", 0, 1)) {
      record_.arm_ended.push_back(static_cast<std::uint8_t>(ended));
    }
    const auto per_point = static_cast<std::size_t>(points());
    if (record_.calls_per_sample.size() != per_point) {
      fields_.refuse("calls_per_sample", "has not one value a point");
    }
    if (record_.index_sets.size() != per_point) {
      fields_.refuse("index_sets", "has not one value a point");
    }
    if (record_.arm_ended.size() != run_.arms.size()) {
      fields_.refuse("arm_ended", "has not one value an arm");
    }
  }

  Status read_echoes() {
    std::size_t i = 0;
    for (const json& item : fields_.list("echoes")) {
      const std::string where = element(where_, "echoes", i++);
      if (!item.is_object()) return bad_input(where + ": is not an object");
      JsonFields f(item, where);
      const auto whole = [&](const char* name) {
        return static_cast<int>(f.whole(name, 0, k_int_max));
      };
      Echo e;
      e.arm = static_cast<int>(f.whole("arm", 0, arms() - 1));
      e.concurrency = static_cast<int>(f.whole("concurrency", 1, run_.rows_max()));
      e.stream = f.text("stream");
      e.backend = f.text("backend");
      e.variant = f.text("variant");
      e.numerics_class = f.text("numerics_class");
      e.isa = f.text("isa");
      e.is_exact = f.flag("exact");
      e.chunk_rows = whole("chunk_rows");
      e.block_heads = whole("block_heads");
      e.tile_rows = whole("tile_rows");
      e.prefetch = whole("prefetch");
      e.splits = whole("splits");
      e.warps = whole("warps");
      e.stages = whole("stages");
      e.ctas_per_sm = whole("ctas_per_sm");
      e.registers = whole("registers");
      e.shared_bytes = whole("shared_bytes");
      e.ctas = f.whole("ctas", 0, std::int64_t{1} << 50);
      e.predicted_us = f.number("predicted_us");
      if (f.problem()) return *f.problem();
      record_.echoes.push_back(std::move(e));
    }
    return {};
  }

  Status read_predictions() {
    std::size_t i = 0;
    for (const json& item : fields_.list("predictions")) {
      const std::string where = element(where_, "predictions", i++);
      if (!item.is_object()) return bad_input(where + ": is not an object");
      JsonFields f(item, where);
      Prediction p;
      p.arm = static_cast<int>(f.whole("arm", 0, arms() - 1));
      p.step_us = f.numbers("step_us");
      p.same_as_incumbent = f.wholes("same_as_incumbent", 0, 1);
      const auto most = static_cast<std::size_t>(run_.rows_max());
      if (p.step_us.size() > most || p.same_as_incumbent.size() != p.step_us.size()) {
        f.refuse("step_us", "and same_as_incumbent have not one value a concurrency");
      }
      if (f.problem()) return *f.problem();
      record_.predictions.push_back(std::move(p));
    }
    return {};
  }

  Status read_gates() {
    std::size_t i = 0;
    for (const json& item : fields_.list("gates")) {
      const std::string where = element(where_, "gates", i++);
      if (!item.is_object()) return bad_input(where + ": is not an object");
      JsonFields f(item, where);
      GateResult g;
      g.arm = static_cast<int>(f.whole("arm", 0, arms() - 1));
      g.point = static_cast<int>(f.whole("point", 0, points() - 1));
      g.stream = f.text("stream");
      g.gate = f.text("gate");
      g.passed = f.flag("passed");
      g.worst = f.number_or_infinity("worst");
      g.detail = f.text("detail");
      if (f.problem()) return *f.problem();
      if (!g.passed && record_.arm_ended[static_cast<std::size_t>(g.arm)] == 0) {
        return bad_input(where + ": failed, but arm_ended says that the arm went on");
      }
      record_.gates.push_back(std::move(g));
    }
    return {};
  }

  Status read_rounds() {
    std::size_t i = 0;
    for (const json& row : fields_.list("rounds")) {
      const std::string where = element(where_, "rounds", i++);
      if (!is_row_of_numbers(row, 5)) return bad_input(where + ": is not a row of 5 numbers");
      RoundLog r;
      r.round = row[0].is_number_integer() ? row[0].get<int>() : -1;
      r.start_s = row[1].get<double>();
      r.clock_ghz_before = row[2].get<double>();
      r.clock_ghz_after = row[3].get<double>();
      r.load_average = row[4].get<double>();
      const int least = record_.rounds.empty() ? 0 : record_.rounds.back().round + 1;
      if (r.round < least || r.round >= record_.rounds_planned) {
        return bad_input(where + ": its round is out of order or beyond rounds_planned");
      }
      if (!(r.clock_ghz_before > 0 && r.clock_ghz_after > 0)) {
        return bad_input(where + ": a clock is not positive");
      }
      record_.rounds.push_back(r);
    }
    return {};
  }

  static bool is_row_of_numbers(const json& row, std::size_t n) {
    return row.is_array() && row.size() == n &&
           std::all_of(row.begin(), row.end(), [](const json& v) { return v.is_number(); });
  }

  // Every kept round holds every measured slot twice at every point, and nothing else.
  Status read_samples() {
    const std::size_t columns = 4 + run_.streams.size();
    std::set<std::tuple<int, int, int, int>> seen;
    std::set<int> rounds;
    for (const RoundLog& r : record_.rounds) rounds.insert(r.round);
    const Schedule schedule = make_schedule(run_, record_.arm_ended);
    std::size_t i = 0;
    for (const json& row : fields_.list("samples")) {
      const std::string where = element(where_, "samples", i++);
      if (!is_row_of_numbers(row, columns)) {
        return bad_input(where + ": is not a row of " + std::to_string(columns) + " numbers");
      }
      int key[4];
      for (std::size_t k = 0; k < 4; ++k) {
        key[k] = row[k].is_number_integer() ? row[k].get<int>() : -1;
      }
      const bool is_slot =
          std::find(schedule.slots.begin(), schedule.slots.end(), key[2]) != schedule.slots.end();
      if (rounds.count(key[0]) == 0 || key[1] < 0 || key[1] >= points() || !is_slot || key[3] < 0 ||
          key[3] > 1) {
        return bad_input(where + ": its round, point, slot or direction was not measured");
      }
      if (!seen.insert({key[0], key[1], key[2], key[3]}).second) {
        return bad_input(where + ": stands there twice");
      }
      Sample s{key[0], key[1], key[2], key[3] == 1, {}};
      for (std::size_t k = 4; k < columns; ++k) {
        const double us = row[k].get<double>();
        if (!(us > 0 && std::isfinite(us))) return bad_input(where + ": a time is not positive");
        s.stream_us.push_back(us);
      }
      record_.samples.push_back(std::move(s));
    }
    const std::size_t wanted =
        record_.rounds.size() * static_cast<std::size_t>(points()) * 2 * schedule.slots.size();
    if (!record_.rounds.empty() && seen.size() != wanted) {
      return bad_input(where_ + ".samples: " + std::to_string(seen.size()) + " of " +
                       std::to_string(wanted) + " samples are there");
    }
    return {};
  }

  const json& json_;
  std::string where_;
  const RunSpec& run_;
  JsonFields fields_;
  RunRecord record_;
};

}  // namespace

Expected<RunRecord> parse_run(const json& value, const std::string& where, const RunSpec& run) {
  if (!value.is_object()) return bad_input(where + ": is not an object");
  return RunReader(value, where, run).read();
}

}  // namespace splitwave::experiment
