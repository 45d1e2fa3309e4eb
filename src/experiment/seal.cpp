// Writes and reads the sealed plan. Numbers go through to_chars and from_chars: what is read back
// is bit for bit what was written, whatever the locale.
#include "experiment/seal.h"

#include <charconv>
#include <cmath>
#include <functional>
#include <map>

#include "base/sha256.h"

namespace splitwave::experiment {
namespace {

std::string text_of(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}
template <class T>
std::string text_of(T value) {
  return std::to_string(value);
}
std::string text_of(bool value) { return value ? "1" : "0"; }

std::string_view next_field(std::string_view& rest) {
  const std::size_t end = std::min(rest.find(' '), rest.size());
  const std::string_view field = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return field;
}

template <class T>
bool parse(std::string_view text, T& value, T least, T most) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size() && value >= least && value <= most;
}
bool parse_flag(std::string_view text, bool& value) {
  value = text == "1";
  return value || text == "0";
}
// A word without spaces or control characters; all names of the plan are.
bool parse_word(std::string_view text, std::string& value) {
  constexpr std::size_t k_word_max = 200;
  if (text.empty() || text.size() > k_word_max) return false;
  for (const char c : text) {
    if (c <= 0x20 || c == 0x7f) return false;
  }
  value = text;
  return true;
}
template <class Enum, std::size_t N>
bool parse_enum(std::string_view text, Enum& value, const Enum (&all)[N]) {
  for (const Enum e : all) {
    if (text == name_of(e)) {
      value = e;
      return true;
    }
  }
  return false;
}

constexpr KvFormat k_formats[] = {KvFormat::v4, KvFormat::v32};
constexpr Locality k_localities[] = {Locality::random_pages, Locality::contiguous,
                                     Locality::shared};
constexpr CacheState k_caches[] = {CacheState::cold, CacheState::warm};
constexpr Execution k_executions[] = {Execution::eager, Execution::graph};
constexpr StopRule k_rules[] = {StopRule::fixed, StopRule::anytime};
constexpr Planted k_planted[] = {Planted::none, Planted::slow, Planted::flip_bit,
                                 Planted::drop_key};
constexpr int k_int_max = 1 << 30;
constexpr auto k_u64_max = ~std::uint64_t{0};

// One scalar of RunSpec: its name, its text, its reader. The one list that writer and reader share.
struct ScalarField {
  const char* name;
  std::function<std::string(const RunSpec&)> write;
  std::function<bool(std::string_view, RunSpec&)> read;
};

#define SPLITWAVE_SEAL_NUMBER(name, member, least, most)                                           \
  ScalarField {                                                                                    \
    name, [](const RunSpec& r) { return text_of(r.member); }, [](std::string_view t, RunSpec& r) { \
      using Number = decltype(r.member);                                                           \
      return parse<Number>(t, r.member, Number(least), Number(most));                              \
    }                                                                                              \
  }
#define SPLITWAVE_SEAL_WORD(name, member)                                      \
  ScalarField {                                                                \
    name, [](const RunSpec& r) { return r.member; },                           \
        [](std::string_view t, RunSpec& r) { return parse_word(t, r.member); } \
  }
#define SPLITWAVE_SEAL_ENUM(name, member, all)                                      \
  ScalarField {                                                                     \
    name, [](const RunSpec& r) { return std::string(name_of(r.member)); },          \
        [](std::string_view t, RunSpec& r) { return parse_enum(t, r.member, all); } \
  }
#define SPLITWAVE_SEAL_FLAG(name, member)                                      \
  ScalarField {                                                                \
    name, [](const RunSpec& r) { return text_of(r.member); },                  \
        [](std::string_view t, RunSpec& r) { return parse_flag(t, r.member); } \
  }

const std::vector<ScalarField>& scalar_fields() {
  static const std::vector<ScalarField> fields = {
      SPLITWAVE_SEAL_WORD("slug", slug),
      SPLITWAVE_SEAL_WORD("backend", backend),
      SPLITWAVE_SEAL_NUMBER("threads", threads, 0, 1024),
      SPLITWAVE_SEAL_WORD("model", model),
      SPLITWAVE_SEAL_ENUM("format", format, k_formats),
      SPLITWAVE_SEAL_NUMBER("heads", heads, 1, k_heads_max),
      SPLITWAVE_SEAL_NUMBER("main_page_size", main_page_size, 1, 65'536),
      SPLITWAVE_SEAL_NUMBER("extra_page_size", extra_page_size, 1, 65'536),
      SPLITWAVE_SEAL_ENUM("locality", locality, k_localities),
      SPLITWAVE_SEAL_ENUM("cache", cache, k_caches),
      SPLITWAVE_SEAL_ENUM("execution", execution, k_executions),
      SPLITWAVE_SEAL_NUMBER("seed", seed, 0, k_u64_max),
      SPLITWAVE_SEAL_NUMBER("sample_us_min", sample_us_min, 0, 1e7),
      SPLITWAVE_SEAL_ENUM("stop_rule", stopping.rule, k_rules),
      SPLITWAVE_SEAL_NUMBER("rounds", stopping.rounds, 1, k_rounds_max),
      SPLITWAVE_SEAL_NUMBER("rounds_min", stopping.rounds_min, 1, k_rounds_max),
      SPLITWAVE_SEAL_NUMBER("alpha", stopping.alpha, 1e-6, 0.5),
      SPLITWAVE_SEAL_FLAG("trimmed", analysis.trimmed),
      SPLITWAVE_SEAL_NUMBER("resamples", analysis.resamples, 1, 1'000'000),
      SPLITWAVE_SEAL_NUMBER("analysis_seed", analysis.seed, 0, k_u64_max),
      SPLITWAVE_SEAL_NUMBER("clock_band", analysis.clock_band, 0, 10),
      SPLITWAVE_SEAL_NUMBER("minimum_effect", analysis.minimum_effect, 0, 10),
      SPLITWAVE_SEAL_FLAG("gate_invariance", gates.invariance),
      SPLITWAVE_SEAL_FLAG("gate_accuracy", gates.accuracy),
      SPLITWAVE_SEAL_FLAG("gate_repeat", gates.repeat),
  };
  return fields;
}

#undef SPLITWAVE_SEAL_NUMBER
#undef SPLITWAVE_SEAL_WORD
#undef SPLITWAVE_SEAL_ENUM
#undef SPLITWAVE_SEAL_FLAG

bool read_stream(std::string_view rest, RunSpec& run) {
  constexpr std::size_t k_streams_max = 16;
  Stream s;
  const bool ok = parse_word(next_field(rest), s.name) &&
                  parse(next_field(rest), s.layers, 1, k_int_max) &&
                  parse(next_field(rest), s.main_width, 0, k_int_max) &&
                  parse(next_field(rest), s.extra_ratio, 0, k_int_max) &&
                  parse(next_field(rest), s.extra_width, 0, k_int_max) && rest.empty();
  run.streams.push_back(std::move(s));
  return ok && run.streams.size() <= k_streams_max;
}

bool read_arm(std::string_view rest, RunSpec& run) {
  ArmSpec arm;
  const bool ok = parse_word(next_field(rest), arm.name) &&
                  parse_enum(next_field(rest), arm.planted, k_planted) &&
                  parse(next_field(rest), arm.planted_percent, 0.0, 1e6);
  if (rest.empty() || parse_word(rest, arm.plan)) {
    run.arms.push_back(std::move(arm));
    return ok && run.arms.size() <= k_arms_max;
  }
  return false;
}

// The number of batches that must follow is kept in batches_left.
bool read_point(std::string_view rest, RunSpec& run, int& batches_left) {
  PointSpec p;
  const bool ok = batches_left == 0 && parse(next_field(rest), p.concurrency, 1, k_int_max) &&
                  parse(next_field(rest), p.weight, 0.0, 1.0) &&
                  parse(next_field(rest), batches_left, 1, k_batches_max) && rest.empty() &&
                  p.concurrency > run.rows_max();
  run.points.push_back(std::move(p));
  return ok && run.points.size() <= k_points_max;
}

bool read_batch(std::string_view rest, RunSpec& run, int& batches_left) {
  if (run.points.empty() || batches_left == 0) return false;
  --batches_left;
  PointSpec& point = run.points.back();
  Batch batch;
  for (int i = 0; i < point.concurrency; ++i) {
    int context = 0;
    if (!parse(next_field(rest), context, 0, k_int_max)) return false;
    batch.contexts.push_back(context);
  }
  point.batches.push_back(std::move(batch));
  return rest.empty();
}

Error malformed(int line, std::string_view text) {
  return bad_input("sealed plan:" + std::to_string(line) + ": '" + std::string(text.substr(0, 60)) +
                   "' is malformed; seal the plan again with `splitwave ab seal`");
}

Status read_lines(std::string_view body, SealedPlan& plan) {
  PlanIdentity& id = plan.identity;
  RunSpec& run = plan.run;
  const std::map<std::string_view, std::string*> words = {{"plan_sha256", &id.plan_sha256},
                                                          {"commit", &id.commit},
                                                          {"blob", &id.blob},
                                                          {"trace", &id.trace},
                                                          {"trace_sha256", &id.trace_sha256}};
  std::size_t scalar = 0;
  int batches_left = 0;
  for (int line = 1; !body.empty(); ++line) {
    const std::size_t end = body.find('\n');
    const std::string_view text = body.substr(0, end);
    body.remove_prefix(std::min(end, body.size() - 1) + 1);
    std::string_view rest = text;
    const std::string_view keyword = next_field(rest);
    bool ok = false;
    if (line == 1) {
      ok = keyword == "splitwave-sealed" && rest == std::to_string(k_sealed_version);
    } else if (const auto word = words.find(keyword); word != words.end()) {
      ok = parse_word(rest, *word->second);
    } else if (keyword == "run" && scalar < scalar_fields().size()) {
      const ScalarField& field = scalar_fields()[scalar++];
      ok = next_field(rest) == field.name && field.read(rest, run);
    } else if (keyword == "stream") {
      ok = read_stream(rest, run);
    } else if (keyword == "arm") {
      ok = read_arm(rest, run);
    } else if (keyword == "point") {
      ok = read_point(rest, run, batches_left);
    } else if (keyword == "batch") {
      ok = read_batch(rest, run, batches_left);
    }
    if (!ok) return malformed(line, text);
  }
  if (scalar != scalar_fields().size() || batches_left != 0 || run.arms.size() < 2 ||
      run.points.empty() || run.streams.empty() || id.plan_sha256.empty()) {
    return bad_input("sealed plan: incomplete; seal the plan again with `splitwave ab seal`");
  }
  return {};
}

}  // namespace

std::string seal(const PlanIdentity& identity, const RunSpec& run) {
  std::string out = "splitwave-sealed " + std::to_string(k_sealed_version) + "\n";
  out += "plan_sha256 " + identity.plan_sha256 + "\ncommit " + identity.commit + "\nblob " +
         identity.blob + "\ntrace " + identity.trace + "\ntrace_sha256 " + identity.trace_sha256 +
         "\n";
  for (const ScalarField& field : scalar_fields()) {
    out += "run " + std::string(field.name) + " " + field.write(run) + "\n";
  }
  for (const Stream& s : run.streams) {
    out += "stream " + s.name + " " + text_of(s.layers) + " " + text_of(s.main_width) + " " +
           text_of(s.extra_ratio) + " " + text_of(s.extra_width) + "\n";
  }
  for (const ArmSpec& arm : run.arms) {
    out += "arm " + arm.name + " " + name_of(arm.planted) + " " + text_of(arm.planted_percent) +
           (arm.plan.empty() ? "" : " " + arm.plan) + "\n";
  }
  for (const PointSpec& p : run.points) {
    out += "point " + text_of(p.concurrency) + " " + text_of(p.weight) + " " +
           text_of(p.batches.size()) + "\n";
    for (const Batch& batch : p.batches) {
      out += "batch";
      for (const int context : batch.contexts) out += " " + text_of(context);
      out += "\n";
    }
  }
  return out + "sha256 " + sha256_hex(out) + "\n";
}

Expected<SealedPlan> unseal(std::string_view text) {
  constexpr std::string_view k_mark = "sha256 ";
  constexpr std::size_t k_last_line = k_mark.size() + 64 + 1;
  if (static_cast<std::int64_t>(text.size()) > k_sealed_bytes_max || text.size() < k_last_line) {
    return bad_input("sealed plan: " + std::to_string(text.size()) + " bytes is no sealed plan");
  }
  const std::string_view body = text.substr(0, text.size() - k_last_line);
  const std::string_view last = text.substr(body.size());
  SealedPlan plan;
  plan.sha256 = sha256_hex(body);
  if (body.empty() || body.back() != '\n' || last.substr(0, k_mark.size()) != k_mark ||
      last.substr(k_mark.size(), 64) != plan.sha256 || last.back() != '\n') {
    return bad_input(
        "sealed plan: its SHA-256 does not match its content (damaged or edited); seal the plan "
        "again with `splitwave ab seal`");
  }
  if (Status status = read_lines(body, plan); !status.ok()) return status.error();
  return plan;
}

}  // namespace splitwave::experiment
