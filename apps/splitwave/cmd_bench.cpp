// splitwave bench: microseconds a call against this machine's roofline and a peer timed in the same
// run.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "base/progress.h"
#include "base/text_table.h"
#include "bench/cpu_bench.h"
#include "command.h"
#include "measure/fingerprint.h"

namespace splitwave::app {
namespace {

struct BenchFlags {
  std::string backend = "cpu";
  std::string shape = "v4-flash";
  std::vector<int> batches = {1, 8, 64};
  std::string peer;
  std::string plan;
  std::string clock = "wall";
  int heads = 0;
  int rounds = 0;
};

void write_point(JsonWriter& json, const bench::BenchPoint& p, bool has_peer) {
  json.begin_object();
  json.field("batch", p.batch).field("variant", p.variant).field("block_heads", p.block_heads);
  json.field("us_median", p.us_median).field("us_p90", p.us_p90).field("us_least", p.us_least);
  json.field("floor_us", p.floor_us).field("ratio_to_floor", p.ratio_to_floor);
  json.field("peak_share_median", p.peak_share);
  if (has_peer) {
    json.field("peer_us_median", p.peer_us_median).field("peer_us_least", p.peer_us_least);
    json.field("peer_ratio_median", p.peer_ratio);
    json.field("peer_ratio_q25", p.peer_ratio_low).field("peer_ratio_q75", p.peer_ratio_high);
    json.field("peer_composition", p.peer_composition);
    json.field("peer_max_difference", p.peer_max_difference);
    json.field("gemm_gflops_median", p.gemm_gflops_median);
    json.field("gemm_gflops_best", p.gemm_gflops_best);
    json.key("peer_candidates").begin_array();
    for (const bench::PeerCandidate& c : p.peer_candidates) {
      json.begin_object().field("name", c.name).field("call_us_least", c.call_us);
      json.field("gemm_gflops_best", c.gemm_gflops).end_object();
    }
    json.end_array();
  }
  json.end_object();
}

std::string to_json(const BenchFlags& flags, const bench::Shape& shape,
                    const bench::CpuBenchResult& result) {
  const bool has_peer = !result.peer_name.empty();
  JsonWriter json;
  json.begin_object();
  json.field("backend", flags.backend).field("shape", shape.name).field("heads", shape.heads);
  json.field("width", shape.width()).field("plan", flags.plan);
  json.field("clock", flags.clock);
  json.field("isa", result.isa).field("class", result.numerics_class);
  json.field("threads", result.threads).field("rounds", result.rounds);
  json.field("peak_gflops", result.peak_gflops);
  json.field("peak_gflops_median", result.peak_gflops_median);
  json.field("copy_gbps", result.copy_gbps);
  json.key("peer");
  if (has_peer) {
    json.begin_object().field("name", result.peer_name).field("version", result.peer_version);
    json.field("gemm_efficiency", result.gemm_efficiency).end_object();
  } else {
    json.null();
  }
  json.key("points").begin_array();
  for (const bench::BenchPoint& p : result.points) write_point(json, p, has_peer);
  json.end_array();
  json.key("faults").begin_array();
  for (const std::string& fault : result.faults) json.value(fault);
  json.end_array();
  json.key("fingerprint");
  measure::write_json(json, measure::collect_fingerprint());
  json.end_object();
  return json.str();
}

void print_text(const bench::Shape& shape, const bench::CpuBenchResult& result) {
  std::printf("%s, %d heads, %d entries a row: %s, %s, %d threads, %d rounds\n",
              shape.name.c_str(), shape.heads, shape.width(), result.isa.c_str(),
              result.numerics_class.c_str(), result.threads, result.rounds);
  std::printf("peak %.1f GFLOP/s (median %.1f), copy %.1f GB/s\n", result.peak_gflops,
              result.peak_gflops_median, result.copy_gbps);
  const bool has_peer = !result.peer_name.empty();
  TextTable table({"batch", "us", "p90", "floor us", "us/floor", "of peak", "peer us",
                   "peer/ours", "peer composition"});
  for (const bench::BenchPoint& p : result.points) {
    table.add_row({std::to_string(p.batch), fixed(p.us_median, 1), fixed(p.us_p90, 1),
                   fixed(p.floor_us, 1), fixed(p.ratio_to_floor, 2), fixed(p.peak_share, 3),
                   has_peer ? fixed(p.peer_us_median, 1) : "-",
                   has_peer ? fixed(p.peer_ratio, 3) : "-", p.peer_composition});
  }
  std::printf("%s", table.str().c_str());
  if (has_peer) {
    std::printf("peer: %s; its GEMMs alone reach %.1f %% of the peak\n",
                result.peer_version.c_str(), 100.0 * result.gemm_efficiency);
  }
  for (const std::string& fault : result.faults) std::printf("FAULT: %s\n", fault.c_str());
}

Status check_flags(const BenchFlags& flags) {
  if (flags.backend != "cpu") {
    return bad_input("--backend '" + flags.backend +
                     "': this command measures the cpu backend; GPU benches are in "
                     "scripts/gpu-check.sh");
  }
  if (!flags.peer.empty() && flags.peer != "library") {
    return bad_input("--peer '" + flags.peer + "' is unknown; what works: library");
  }
  if (flags.clock != "wall" && flags.clock != "cpu") {
    return bad_input("--clock '" + flags.clock + "' is unknown; what works: wall, cpu");
  }
  if (flags.rounds < 0 || flags.rounds > 10000) {
    return bad_input("--rounds " + std::to_string(flags.rounds) + ": 1..10000, or 0 to choose");
  }
  return {};
}

void run(CommandContext& context, const CLI::App& command, const BenchFlags& flags) {
  if (const Status s = check_flags(flags); !s) return fail(context, command, s.error());
  const Expected<bench::Shape> shape = bench::find_shape(flags.shape, flags.heads);
  if (!shape) return fail(context, command, shape.error());
  const Expected<PlanOverrides> overrides = parse_plan_overrides(flags.plan);
  if (!overrides) return fail(context, command, overrides.error());
  bench::CpuBenchOptions options;
  options.shape = *shape;
  options.batches = flags.batches;
  options.has_peer = flags.peer == "library";
  options.rounds = flags.rounds;
  options.clock = flags.clock == "cpu" ? bench::BenchClock::cpu : bench::BenchClock::wall;
  options.overrides = *overrides;
  std::unique_ptr<Progress> progress;
  int seen = 0;
  const auto report = [&](int done, int total) {
    if (progress == nullptr) progress = std::make_unique<Progress>("rounds", total);
    progress->advance(done - seen);
    seen = done;
  };
  const Expected<bench::CpuBenchResult> result = bench::run_cpu_bench(options, report);
  progress.reset();
  if (!result) return fail(context, command, result.error());
  if (context.json) {
    std::fputs(to_json(flags, *shape, *result).c_str(), stdout);
  } else {
    print_text(*shape, *result);
  }
  for (const std::string& fault : result->faults) {
    fail(context, command, gate_error(fault));
  }
}

}  // namespace

void add_bench(CLI::App& root, CommandContext& context) {
  CLI::App* command =
      add_command(root, context, "bench", "microseconds a call, against the roofline and a peer",
                  "splitwave bench --backend cpu --shape v4-flash --batch 1,8,64 --peer library");
  const auto flags = std::make_shared<BenchFlags>();
  std::string names;
  for (const bench::Shape& shape : bench::shapes()) {
    names += "\n  " + shape.name + ": " + shape.what;
  }
  command->add_option("--backend", flags->backend, "cpu");
  command->add_option("--shape", flags->shape, "one of" + names);
  command->add_option("--batch", flags->batches, "rows of a call, comma-separated")->delimiter(',');
  command->add_option("--peer", flags->peer, "library: oneDNN or OpenBLAS, whichever is faster");
  command->add_option("--heads", flags->heads, "replaces the shape's head count");
  command->add_option("--rounds", flags->rounds, "interleaved rounds (0: chosen)");
  command->add_option("--clock", flags->clock,
                      "wall, or cpu: CPU time of one thread, for machines that others use");
  command->add_option("--plan", flags->plan, "plan overrides, as SPLITWAVE_PLAN");
  command->callback([&context, command, flags] { run(context, *command, *flags); });
}

}  // namespace splitwave::app
