// The choice: eligible variants and cuts become candidates, the cost model ranks them, the reasons
// say why. Nothing here knows a kernel by name.
#include "plan/planner.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "plan/calibration.h"
#include "plan/chunks.h"
#include "plan/cost.h"
#include "plan/eligible.h"
#include "plan/waves.h"

namespace splitwave {
namespace {

// Differences below this are not the model's to decide: the candidate with the larger head block
// (less traffic) wins, then the one with fewer chunks, then the registry's order.
constexpr double k_model_tie = 0.01;
// Rejected candidates that the reasons name.
constexpr std::size_t k_rejected_named_max = 3;
// Rows ahead that the CPU kernel prefetches when nobody says otherwise; a first value, to be
// replaced by an experiment's.
constexpr int k_cpu_prefetch_rows = 8;
// Splits that the free search tries; 128 is what FlashAttention's heuristics stop at.
constexpr std::int64_t k_searched_splits_max = 128;
// Rows of a call; beyond it counts would overflow what a plan holds.
constexpr std::int64_t k_rows_max = 1 << 20;

struct Cut {
  int chunk_rows = 1;
  int chunks = 0;  // of a full-width row
  int splits = 1;  // max(1, chunks)
};

struct Candidate {
  const VariantTraits* variant = nullptr;
  int ctas_per_sm = 1;
  Cut cut;
  Cost cost;
};

// The problem after overrides.
struct Request {
  const ProblemSpec* spec = nullptr;
  const DeviceSpec* device = nullptr;
  const PlanOverrides* overrides = nullptr;
  int rows = 0;
  std::int64_t width = 0;
  SplitMode mode = SplitMode::exact;
  NumericsClass numerics = NumericsClass::throughput;
};

std::string us(double value) {
  const std::int64_t tenths = static_cast<std::int64_t>(value * 10.0 + 0.5);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " us";
}

std::string count(std::int64_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

const char* name_of(NumericsClass numerics) {
  return numerics == NumericsClass::throughput ? "throughput" : "latency";
}

Cut cut_at(std::int64_t width, std::int64_t chunk_rows) {
  Cut cut;
  cut.chunk_rows = static_cast<int>(std::max<std::int64_t>(1, chunk_rows));
  cut.chunks = static_cast<int>(chunk_count(width, cut.chunk_rows));
  cut.splits = std::max(1, cut.chunks);
  return cut;
}

// The most even cut into at most `splits` chunks. A list of 10 entries cannot be cut into 6 equal
// chunks of whole entries: 2 a chunk give 5.
Cut even_cut(std::int64_t width, std::int64_t splits) {
  return cut_at(width, (width + splits - 1) / splits);
}

// A chunk shorter than one softmax tile would pay for a whole one.
std::int64_t splits_max(std::int64_t width, int tile_rows) {
  return std::max<std::int64_t>(1, (width + tile_rows - 1) / tile_rows);
}

std::vector<Cut> cuts_for(const Request& request, const VariantTraits& variant) {
  const PlanOverrides& overrides = *request.overrides;
  if (request.mode == SplitMode::exact) {
    const int chunk_rows = overrides.chunk_rows.value_or(
        class_chunk_rows(request.spec->format, request.spec->main_width, request.spec->extra_width,
                         request.numerics));
    return {cut_at(request.width, chunk_rows)};
  }
  const std::int64_t most = splits_max(request.width, variant.tile_rows);
  if (overrides.target_ctas) {
    const std::int64_t head_blocks =
        (request.spec->heads + variant.block_heads - 1) / variant.block_heads;
    const std::int64_t splits =
        splits_for_target(*overrides.target_ctas, std::max(1, request.rows), head_blocks);
    return {even_cut(request.width, std::min(splits, most))};
  }
  std::vector<Cut> cuts;
  for (std::int64_t splits = 1; splits <= std::min(most, k_searched_splits_max); ++splits) {
    const Cut cut = even_cut(request.width, splits);
    if (cuts.empty() || cuts.back().chunk_rows != cut.chunk_rows) cuts.push_back(cut);
  }
  return cuts;
}

Candidate make_candidate(const Request& request, const VariantTraits& variant, const Cut& cut,
                         const CostConstants& constants) {
  Candidate candidate{&variant, residency_on(*request.device, variant), cut, {}};
  LaunchShape shape;
  shape.format = request.spec->format;
  shape.rows = request.rows;
  shape.heads = request.spec->heads;
  shape.width = request.width;
  shape.block_heads = variant.block_heads;
  shape.chunk_rows = cut.chunk_rows;
  shape.tile_rows = std::max(1, variant.tile_rows);
  shape.sm_count = request.device->sm_count;
  shape.ctas_per_sm = candidate.ctas_per_sm;
  shape.l2_bytes = request.device->l2_bytes;
  shape.merges_in_cluster = variant.has_cluster;
  candidate.cost = launch_cost(shape, constants);
  return candidate;
}

// Index of the choice: the least predicted time, ties as k_model_tie says.
std::size_t choose(const std::vector<Candidate>& candidates) {
  double best_us = candidates.front().cost.total_us;
  for (const Candidate& c : candidates) best_us = std::min(best_us, c.cost.total_us);
  const auto is_tied = [&](const Candidate& c) {
    return c.cost.total_us <= best_us * (1.0 + k_model_tie);
  };
  std::size_t chosen = candidates.size();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& c = candidates[i];
    if (!is_tied(c)) continue;
    if (chosen == candidates.size()) {
      chosen = i;
      continue;
    }
    const Candidate& held = candidates[chosen];
    const int heads = c.variant->block_heads;
    const int held_heads = held.variant->block_heads;
    if (heads > held_heads || (heads == held_heads && c.cut.chunks < held.cut.chunks)) chosen = i;
  }
  return chosen;
}

Expected<Request> make_request(const ProblemSpec& spec, const DeviceSpec& device, int rows,
                               const PlanOverrides& overrides) {
  Request request{&spec, &device, &overrides, rows, 0, SplitMode::exact, spec.numerics};
  const auto refuse = [](const std::string& field, std::int64_t value, const std::string& works) {
    return bad_input(field + "=" + std::to_string(value) + "; what works: " + works);
  };
  if (spec.heads < 1 || spec.heads > k_heads_max) {
    return refuse("heads", spec.heads, "1.." + std::to_string(k_heads_max));
  }
  if (spec.main_width < 0) return refuse("main_width", spec.main_width, "0 or more");
  if (spec.extra_width < 0) return refuse("extra_width", spec.extra_width, "0 or more");
  if (rows < 0 || rows > k_rows_max) {
    return refuse("rows", rows, "0.." + std::to_string(k_rows_max));
  }
  if (device.sm_count < 1) return refuse("device.sm_count", device.sm_count, "1 or more");
  request.width = std::int64_t{spec.main_width} + spec.extra_width;
  request.numerics = overrides.numerics.value_or(spec.numerics);
  // target_ctas is the free rule's parameter: giving it asks for the rule.
  const SplitMode implied = overrides.target_ctas ? SplitMode::free : SplitMode::exact;
  request.mode = overrides.mode.value_or(implied);
  if (request.mode == SplitMode::exact && overrides.target_ctas) {
    return bad_input("plan override: target_ctas=" + std::to_string(*overrides.target_ctas) +
                     " has no meaning with mode=exact, where a row's own length cuts it; what "
                     "works: mode=free");
  }
  if (request.mode == SplitMode::free && overrides.chunk_rows) {
    return bad_input("plan override: chunk_rows=" + std::to_string(*overrides.chunk_rows) +
                     " has no meaning with mode=free, where the batch cuts a row; what works: "
                     "mode=exact, or target_ctas");
  }
  if (overrides.prefetch && device.arch != 0) {
    return bad_input("plan override: prefetch=" + std::to_string(*overrides.prefetch) +
                     " is the CPU backend's; on a GPU what works is stages");
  }
  return request;
}

std::string describe_cut(const Request& request, const Candidate& chosen) {
  const std::string rows_each = std::to_string(chosen.cut.chunk_rows) + " rows";
  const std::string width = std::to_string(request.width) + " entries";
  if (request.mode == SplitMode::exact) {
    return std::string("exact, class ") + name_of(request.numerics) + ": a row is cut every " +
           rows_each + " by its own length alone, " + count(chosen.cut.chunks, "chunk") + " of " +
           width + " whatever the batch";
  }
  if (!request.overrides->target_ctas) {
    return "free: " + count(chosen.cut.splits, "split") + " of " + rows_each +
           " has the least predicted time; the bits depend on the batch";
  }
  const std::int64_t head_blocks =
      (request.spec->heads + chosen.variant->block_heads - 1) / chosen.variant->block_heads;
  const std::int64_t base = std::int64_t{std::max(1, request.rows)} * head_blocks;
  const std::int64_t rule =
      splits_for_target(*request.overrides->target_ctas, std::max(1, request.rows), head_blocks);
  std::string text = "free: splits = ceil(" + std::to_string(*request.overrides->target_ctas) +
                     " target CTAs / " + std::to_string(base) +
                     " base CTAs) = " + std::to_string(rule);
  if (rule != chosen.cut.splits) {
    text += ", but " + width + " in tiles of " + std::to_string(chosen.variant->tile_rows) +
            " can only be cut into " + std::to_string(chosen.cut.splits);
  }
  return text + "; the bits depend on the batch";
}

std::string describe_choice(const Candidate& chosen, std::int64_t slots) {
  const Cost& cost = chosen.cost;
  const Waves waves = waves_of(cost.items, slots);
  std::string text = "block_heads " + std::to_string(chosen.variant->block_heads) + ": " +
                     count(cost.items, "item") + " on " + count(slots, "slot") + ", " +
                     count(waves.waves, "wave") + "; predicted " + us(cost.total_us) +
                     " = launch " + us(cost.launch_us) + " + items " + us(cost.items_us);
  if (cost.combine_us > 0) text += " + combine " + us(cost.combine_us);
  return text + "; a KV row is bound by " + std::string(name_of(cost.bound));
}

std::string describe_rejected(const Candidate& rejected, const Candidate& chosen) {
  const double percent = (rejected.cost.total_us / chosen.cost.total_us - 1.0) * 100.0;
  const std::int64_t tenths =
      static_cast<std::int64_t>(percent * 10.0 + (percent < 0 ? -0.5 : 0.5));
  const std::string difference = std::string(tenths < 0 ? "-" : "+") +
                                 std::to_string(std::abs(tenths) / 10) + "." +
                                 std::to_string(std::abs(tenths) % 10) + " %";
  return "rejected: " + rejected.variant->name + ", block_heads " +
         std::to_string(rejected.variant->block_heads) + ", " +
         count(rejected.cut.splits, "chunk") + ": " + us(rejected.cost.total_us) + " (" +
         difference + (std::abs(percent) <= k_model_tie * 100.0 ? ", a tie)" : ")");
}

void add_rejected(const std::vector<Candidate>& candidates, std::size_t chosen,
                  std::vector<std::string>& reasons) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (i != chosen) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return candidates[a].cost.total_us < candidates[b].cost.total_us;
  });
  for (std::size_t i = 0; i < std::min(order.size(), k_rejected_named_max); ++i) {
    reasons.push_back(describe_rejected(candidates[order[i]], candidates[chosen]));
  }
  if (order.size() > k_rejected_named_max) {
    reasons.push_back("rejected: " + std::to_string(order.size() - k_rejected_named_max) +
                      " more, all slower");
  }
}

bool is_forced(const PlanOverrides& o) {
  return o.target_ctas || o.block_heads || o.tile_rows || o.warps || o.stages || o.ctas_per_sm ||
         o.chunk_rows || o.variant;
}

Plan make_plan(const Request& request, const Candidate& chosen) {
  const VariantTraits& variant = *chosen.variant;
  Plan plan;
  plan.batch = request.rows;
  plan.mode = request.mode;
  plan.numerics = request.numerics;
  plan.variant = variant.name;
  plan.chunk_rows = chosen.cut.chunk_rows;
  plan.block_heads = variant.block_heads;
  plan.head_blocks = (request.spec->heads + variant.block_heads - 1) / variant.block_heads;
  plan.tile_rows = variant.tile_rows;
  plan.prefetch =
      request.device->arch == 0 ? request.overrides->prefetch.value_or(k_cpu_prefetch_rows) : 0;
  plan.chunks = chosen.cut.chunks;
  plan.splits = chosen.cut.splits;
  plan.ctas = std::int64_t{request.rows} * plan.head_blocks * plan.splits;
  plan.ctas_per_sm = chosen.ctas_per_sm;
  const Waves waves =
      waves_of(plan.ctas, std::int64_t{request.device->sm_count} * plan.ctas_per_sm);
  plan.waves = static_cast<int>(waves.waves);
  plan.utilization = waves.utilization;
  plan.predicted_us = chosen.cost.total_us;
  plan.provenance = is_forced(*request.overrides) ? Provenance::forced : Provenance::modelled;
  return plan;
}

}  // namespace

Expected<Plan> choose_plan(const ProblemSpec& spec, const DeviceSpec& device,
                           std::span<const VariantTraits> candidates, int rows,
                           const PlanOverrides& overrides) {
  const Expected<Request> made = make_request(spec, device, rows, overrides);
  if (!made.ok()) return made.error();
  const Request& request = *made;
  Expected<EligibleVariants> eligible = eligible_variants(spec, device, candidates, overrides);
  if (!eligible.ok()) return eligible.error();

  std::vector<Candidate> considered;
  for (const VariantTraits* variant : eligible->variants) {
    const CostConstants constants = constants_for(device, *variant, {});
    for (const Cut& cut : cuts_for(request, *variant)) {
      considered.push_back(make_candidate(request, *variant, cut, constants));
    }
  }
  const std::size_t index = choose(considered);
  const Candidate& chosen = considered[index];
  Plan plan = make_plan(request, chosen);
  plan.reasons = std::move(eligible->reasons);
  plan.reasons.push_back(describe_cut(request, chosen));
  plan.reasons.push_back(
      describe_choice(chosen, std::int64_t{device.sm_count} * chosen.ctas_per_sm));
  if (plan.provenance == Provenance::forced) {
    plan.reasons.push_back("forced by: " + to_string(overrides));
  }
  if (rows > 0) add_rejected(considered, index, plan.reasons);
  plan.reasons.push_back("cost constants " + constants_for(device, *chosen.variant, {}).source);
  return plan;
}

}  // namespace splitwave
