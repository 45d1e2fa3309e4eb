// splitwave plan: the launch for each batch and why, for a GPU of the table or for this machine.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "base/text_table.h"
#include "command.h"
#include "device_argument.h"
#include "plan/planner.h"
#include "plan/ranking.h"
#include "plan/source_kernel.h"
#include "splitwave/decoder.h"

namespace splitwave::app {
namespace {

constexpr int k_batch_max = 1 << 20;
constexpr std::size_t k_batches_max = 4096;
constexpr std::size_t k_targets_max = 16;

struct Flags {
  std::string device = "auto";
  std::string format = "v4";
  int heads = 64;
  int topk = 128;
  int extra_topk = 512;
  std::string operands = "bf16";
  std::vector<int> batches = {1, 8, 16, 32, 48, 64, 80, 96, 128};
  std::vector<int> target_ctas;
  std::string block_heads, mode, numerics, variant, plan;
  std::string kernels = "auto";
  std::string calibration;
};

// What every point shares.
struct Setup {
  DeviceSpec device;
  std::string device_reason;
  ProblemSpec spec;
  std::vector<VariantTraits> candidates;
  std::string kernels;  // where the candidates come from
  std::vector<CalibrationRecord> calibrations;
};

struct Point {
  int target_ctas = 0;  // 0: not the free rule
  Plan plan;
  VariantTraits traits;
};

std::string override_text(const Flags& flags, int target_ctas) {
  std::string text = flags.plan;
  const auto add = [&text](const char* key, const std::string& value) {
    if (!value.empty()) text += (text.empty() ? "" : ",") + std::string(key) + "=" + value;
  };
  add("mode", flags.mode);
  add("class", flags.numerics);
  add("target_ctas", target_ctas == 0 ? "" : std::to_string(target_ctas));
  add("block_heads", flags.block_heads);
  add("variant", flags.variant);
  return text;
}

Status check_lists(const Flags& flags) {
  if (flags.topk < 0)
    return bad_input("topk=" + std::to_string(flags.topk) + "; what works: 0 or more");
  if (flags.extra_topk < 0) {
    return bad_input("extra-topk=" + std::to_string(flags.extra_topk) + "; what works: 0 or more");
  }
  if (flags.batches.empty() || flags.batches.size() > k_batches_max) {
    return bad_input("batch has " + std::to_string(flags.batches.size()) +
                     " values; what works: 1.." + std::to_string(k_batches_max));
  }
  for (const int batch : flags.batches) {
    if (batch < 0 || batch > k_batch_max) {
      return bad_input("batch=" + std::to_string(batch) + "; what works: 0.." +
                       std::to_string(k_batch_max));
    }
  }
  if (flags.target_ctas.size() > k_targets_max) {
    return bad_input("target-ctas has " + std::to_string(flags.target_ctas.size()) +
                     " values; what works: at most " + std::to_string(k_targets_max));
  }
  for (const int target : flags.target_ctas) {
    if (target < 1)
      return bad_input("target-ctas=" + std::to_string(target) + "; what works: 1 or more");
  }
  return {};
}

// The registry's variants for the device; the source's kernel where the free rule is replayed or
// where the registry has nothing for a GPU.
Status choose_kernels(const Flags& flags, const PlanOverrides& overrides, Setup& setup) {
  const bool is_gpu = setup.device.arch != 0;
  std::vector<VariantTraits> registry;
  for (const VariantListing& listing : list_variants()) {
    const bool is_here = is_gpu ? listing.traits.backend == "cuda"
                                : listing.traits.backend == "cpu" && listing.runnable;
    if (is_here) registry.push_back(listing.traits);
  }
  const bool replays_rule = overrides.target_ctas && !overrides.variant;
  const bool use_source = flags.kernels == "source" ||
                          (flags.kernels == "auto" && is_gpu && (replays_rule || registry.empty()));
  if (use_source && !is_gpu) {
    return bad_input("kernels=source is a GPU kernel's traits; what works with " +
                     setup.device.name + ": registry");
  }
  if (use_source) {
    setup.candidates = {source_kernel_traits(setup.spec.format)};
    setup.kernels = "the source's kernel (reference traits, not in this build)";
    return {};
  }
  if (registry.empty()) {
    return bad_input("kernels=registry: this build has no variant for " + setup.device.name +
                     "; what works: --kernels source, or a build with CUDA");
  }
  setup.candidates = std::move(registry);
  setup.kernels = "this build's registry";
  return {};
}

Expected<Setup> make_setup(const Flags& flags) {
  if (const Status lists = check_lists(flags); !lists) return lists.error();
  Setup setup;
  const auto device = device_argument(flags.device);
  if (!device.ok()) return device.error();
  setup.device = device->device;
  setup.device_reason = device->reason;
  setup.spec.format = flags.format == "v4" ? KvFormat::v4 : KvFormat::v32;
  setup.spec.heads = flags.heads;
  setup.spec.main_width = flags.topk;
  setup.spec.extra_width = flags.extra_topk;
  setup.spec.operands = flags.operands == "bf16" ? OperandType::bf16 : OperandType::f16;
  const int target = flags.target_ctas.empty() ? 0 : flags.target_ctas.front();
  const auto overrides = parse_plan_overrides(override_text(flags, target));
  if (!overrides.ok()) return overrides.error();
  if (const Status chosen = choose_kernels(flags, *overrides, setup); !chosen)
    return chosen.error();
  if (!flags.calibration.empty()) {
    std::ifstream file(flags.calibration);
    if (!file) return bad_input("calibration='" + flags.calibration + "' cannot be read");
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    auto records = parse_calibration(text);
    if (!records.ok()) return records.error();
    setup.calibrations = std::move(*records);
  }
  for (const CalibrationRecord& record : built_in_planner_data().calibrations) {
    setup.calibrations.push_back(record);
  }
  return setup;
}

Expected<std::vector<Point>> make_points(const Flags& flags, const Setup& setup) {
  const PlannerData data{setup.calibrations, built_in_planner_data().tuning};
  std::vector<int> targets = flags.target_ctas;
  if (targets.empty()) targets.push_back(0);
  std::vector<Point> points;
  for (const int target : targets) {
    const auto overrides = parse_plan_overrides(override_text(flags, target));
    if (!overrides.ok()) return overrides.error();
    for (const int batch : flags.batches) {
      auto plan = choose_plan(setup.spec, setup.device, setup.candidates, batch, *overrides, data);
      if (!plan.ok()) return plan.error();
      VariantTraits traits;
      for (const VariantTraits& t : setup.candidates) {
        if (t.name == plan->variant) traits = t;
      }
      const int free_target = overrides->target_ctas.value_or(0);
      points.push_back({free_target, std::move(*plan), std::move(traits)});
    }
  }
  return points;
}

// Where several target_ctas were asked for: which of them the model prefers at each batch.
std::vector<TargetRanking> rank(const Flags& flags, const std::vector<Point>& points) {
  std::vector<TargetRanking> rankings;
  if (flags.target_ctas.size() < 2) return rankings;
  for (const int batch : flags.batches) {
    std::vector<RankedTarget> targets;
    for (const Point& p : points) {
      if (p.plan.batch == batch) targets.push_back({p.target_ctas, p.plan.predicted_us});
    }
    rankings.push_back(rank_targets(batch, std::move(targets)));
  }
  return rankings;
}

const char* mode_name(SplitMode mode) { return mode == SplitMode::exact ? "exact" : "free"; }
const char* class_name(NumericsClass c) {
  return c == NumericsClass::throughput ? "throughput" : "latency";
}
const char* provenance_name(Provenance p) {
  return p == Provenance::modelled ? "modelled" : p == Provenance::measured ? "measured" : "forced";
}
const char* measurement_name(const Plan& plan) {
  return plan.provenance == Provenance::measured ? "measured" : "unmeasured";
}

void write_point(JsonWriter& json, const Point& p) {
  json.begin_object().field("batch", p.plan.batch).field("mode", mode_name(p.plan.mode));
  json.field("class", class_name(p.plan.numerics)).field("chunk_rows", p.plan.chunk_rows);
  json.field("variant", p.plan.variant).field("numerics_class", p.traits.numerics_class);
  json.field("isa", p.traits.isa).field("block_heads", p.plan.block_heads);
  json.field("head_blocks", p.plan.head_blocks).field("tile_rows", p.plan.tile_rows);
  json.field("chunks", p.plan.chunks).field("splits", p.plan.splits);
  if (p.target_ctas > 0) json.field("target_ctas", p.target_ctas);
  json.field("ctas", p.plan.ctas).field("ctas_per_sm", p.plan.ctas_per_sm);
  json.field("waves", p.plan.waves).field("utilization", p.plan.utilization);
  json.field("predicted_us", p.plan.predicted_us);
  json.field("provenance", provenance_name(p.plan.provenance));
  json.field("measurement", measurement_name(p.plan));
  json.key("reasons").begin_array();
  for (const std::string& reason : p.plan.reasons) json.value(reason);
  json.end_array().end_object();
}

void print_json(const Setup& setup, const std::vector<Point>& points,
                const std::vector<TargetRanking>& rankings) {
  JsonWriter json;
  json.begin_object().key("device").begin_object().field("name", setup.device.name);
  json.field("product", setup.device.product).field("arch", setup.device.arch);
  json.field("sm_count", setup.device.sm_count).field("source", setup.device.source);
  json.field("reason", setup.device_reason).end_object();
  json.key("problem").begin_object().field("format", name_of(setup.spec.format));
  json.field("heads", setup.spec.heads).field("topk", setup.spec.main_width);
  json.field("extra_topk", setup.spec.extra_width).end_object();
  json.field("kernels", setup.kernels).key("points").begin_array();
  for (const Point& p : points) write_point(json, p);
  json.end_array();
  if (!rankings.empty()) {
    json.key("ranking").begin_array();
    for (const TargetRanking& r : rankings) {
      json.begin_object().field("batch", r.batch).key("target_ctas").begin_array();
      for (const RankedTarget& t : r.order) json.value(t.target_ctas);
      json.end_array().field("tie", r.is_tie).field("text", r.text).end_object();
    }
    json.end_array();
  }
  json.end_object();
  std::fputs(json.str().c_str(), stdout);
}

void print_text(const Setup& setup, const std::vector<Point>& points,
                const std::vector<TargetRanking>& rankings) {
  std::printf("%s (%s), %d %s; %s\nkernels: %s\n", setup.device.name.c_str(),
              setup.device.product.c_str(), setup.device.sm_count,
              setup.device.arch == 0 ? "workers" : "SMs", setup.device_reason.c_str(),
              setup.kernels.c_str());
  TextTable table({"batch", "mode", "class", "variant", "heads", "chunk", "splits", "ctas", "waves",
                   "use %", "us", "from", "point"});
  for (const Point& p : points) {
    const std::string mode =
        p.target_ctas > 0 ? "free " + std::to_string(p.target_ctas) : mode_name(p.plan.mode);
    table.add_row({std::to_string(p.plan.batch), mode, class_name(p.plan.numerics), p.plan.variant,
                   std::to_string(p.plan.block_heads), std::to_string(p.plan.chunk_rows),
                   std::to_string(p.plan.splits), std::to_string(p.plan.ctas),
                   std::to_string(p.plan.waves), fixed(p.plan.utilization * 100, 1),
                   fixed(p.plan.predicted_us, 1), provenance_name(p.plan.provenance),
                   measurement_name(p.plan)});
  }
  std::fputs(table.str().c_str(), stdout);
  for (const Point& p : points) {
    std::printf(
        "\nbatch %d%s\n", p.plan.batch,
        p.target_ctas > 0 ? (", " + std::to_string(p.target_ctas) + " target CTAs").c_str() : "");
    for (const std::string& reason : p.plan.reasons) std::printf("  %s\n", reason.c_str());
  }
  if (!rankings.empty()) std::printf("\n");
  for (const TargetRanking& r : rankings) std::printf("batch %d: %s\n", r.batch, r.text.c_str());
}

void run(CommandContext& context, const CLI::App& command, const Flags& flags) {
  const auto setup = make_setup(flags);
  if (!setup.ok()) return fail(context, command, setup.error());
  const auto points = make_points(flags, *setup);
  if (!points.ok()) return fail(context, command, points.error());
  const std::vector<TargetRanking> rankings = rank(flags, *points);
  if (context.json) {
    print_json(*setup, *points, rankings);
  } else {
    print_text(*setup, *points, rankings);
  }
}

}  // namespace

void add_plan(CLI::App& root, CommandContext& context) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      add_command(root, context, "plan", "the launch for each batch, and why",
                  "splitwave plan --device rtx-pro-6000 --format v4 --heads 64 --topk 128 "
                  "--extra-topk 512 --batch 64,80,96 --target-ctas 512,768 --block-heads 32");
  command->add_option("--device", flags->device, "one of " + device_names())->capture_default_str();
  command->add_option("--format", flags->format, "cache row format")
      ->check(CLI::IsMember({"v4", "v32"}))
      ->capture_default_str();
  command->add_option("--heads", flags->heads, "query heads, 1..128")->capture_default_str();
  command->add_option("--topk", flags->topk, "entries of the main index list")
      ->capture_default_str();
  command->add_option("--extra-topk", flags->extra_topk, "entries of the extra index list")
      ->capture_default_str();
  command->add_option("--operands", flags->operands, "matrix operands")
      ->check(CLI::IsMember({"bf16", "f16"}))
      ->capture_default_str();
  command->add_option("--batch", flags->batches, "batch sizes, such as 64,80,96")->delimiter(',');
  command
      ->add_option("--target-ctas", flags->target_ctas,
                   "free mode: splits for this many CTAs; several are ranked")
      ->delimiter(',');
  command->add_option("--block-heads", flags->block_heads, "heads of one item");
  command->add_option("--mode", flags->mode, "exact (default) or free");
  command->add_option("--class", flags->numerics, "throughput (default) or latency");
  command->add_option("--variant", flags->variant, "a variant by its name");
  command->add_option("--plan", flags->plan, "more overrides, as in SPLITWAVE_PLAN");
  command->add_option("--kernels", flags->kernels, "which traits: auto, registry or source")
      ->check(CLI::IsMember({"auto", "registry", "source"}))
      ->capture_default_str();
  command->add_option("--calibration", flags->calibration, "a file of measured cost constants");
  command->callback([&context, command, flags] { run(context, *command, *flags); });
}

}  // namespace splitwave::app
