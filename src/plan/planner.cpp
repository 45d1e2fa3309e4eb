// The choice: eligible variants and cuts become candidates, the cost model ranks them, the tuning
// table may overrule it, the reasons say why. Nothing here knows a kernel by name.
#include "plan/planner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/candidates.h"
#include "plan/eligible.h"
#include "plan/source_kernel.h"
#include "plan/waves.h"

namespace splitwave {
namespace {

// Rejected candidates that the reasons name.
constexpr std::size_t k_rejected_named_max = 3;

using Candidates = std::vector<PlanCandidate>;

// ---- words
// ---------------------------------------------------------------------------------------

// One decimal.
std::string tenths(double value) {
  const auto n = static_cast<std::int64_t>(std::llround(value * 10.0));
  return std::string(n < 0 ? "-" : "") + std::to_string(std::abs(n) / 10) + "." +
         std::to_string(std::abs(n) % 10);
}

std::string us(double value) { return tenths(value) + " us"; }

std::string count(std::int64_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

std::string describe_exact_cut(const PlanRequest& request, const Cut& cut) {
  const char* name = request.numerics == NumericsClass::throughput ? "throughput" : "latency";
  return std::string("exact, class ") + name + ": a row is cut every " +
         std::to_string(cut.chunk_rows) + " rows by its own length alone, " +
         count(cut.chunks, "chunk") + " of " + std::to_string(request.width) +
         " entries whatever the batch";
}

std::string describe_free_cut(const PlanRequest& request, const PlanCandidate& chosen) {
  const std::string bits = "; the bits depend on the batch";
  if (!request.overrides->target_ctas) {
    return "free: " + count(chosen.cut.splits, "split") + " of " +
           std::to_string(chosen.cut.chunk_rows) + " rows has the least predicted time" + bits;
  }
  const std::int64_t base =
      std::int64_t{std::max(1, request.rows)} * request.head_blocks(*chosen.variant);
  const std::int64_t ruled = request.ruled_splits(*chosen.variant);
  std::string text = "free: splits = ceil(" + std::to_string(*request.overrides->target_ctas) +
                     " target CTAs / " + std::to_string(base) +
                     " base CTAs) = " + std::to_string(ruled);
  if (ruled != chosen.cut.splits) {
    text += ", but " + std::to_string(request.width) + " entries in tiles of " +
            std::to_string(chosen.variant->tile_rows) + " can only be cut into " +
            std::to_string(chosen.cut.splits);
  }
  return text + bits;
}

std::string describe_choice(const PlanRequest& request, const PlanCandidate& chosen) {
  const Cost& cost = chosen.cost;
  const std::int64_t slots = items_at_once(*request.device, *chosen.variant);
  std::string text = "block_heads " + std::to_string(chosen.variant->block_heads) + ": " +
                     count(cost.items, "item") + " on " + count(slots, "slot") + ", " +
                     count(waves_of(cost.items, slots).waves, "wave") + "; predicted " +
                     us(cost.total_us) + " = launch " + us(cost.launch_us) + " + items " +
                     us(cost.items_us);
  if (cost.combine_us > 0) text += " + combine " + us(cost.combine_us);
  return text + "; a KV row is bound by " + std::string(name_of(cost.bound));
}

std::string describe_rejected(const PlanCandidate& rejected, const PlanCandidate& chosen) {
  const double percent = (rejected.cost.total_us / chosen.cost.total_us - 1.0) * 100.0;
  return "rejected: " + rejected.variant->name + ", block_heads " +
         std::to_string(rejected.variant->block_heads) + ", " +
         count(rejected.cut.splits, "split") + ": " + us(rejected.cost.total_us) + " (" +
         (percent < 0 ? "" : "+") + tenths(percent) + " %" +
         (std::abs(percent) <= k_model_tie * 100.0 ? ", a tie)" : ")");
}

void add_rejected(const Candidates& candidates, std::size_t chosen,
                  std::vector<std::string>& reasons) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (i != chosen) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return candidates[a].cost.total_us < candidates[b].cost.total_us;
  });
  const std::size_t named = std::min(order.size(), k_rejected_named_max);
  for (std::size_t i = 0; i < named; ++i) {
    reasons.push_back(describe_rejected(candidates[order[i]], candidates[chosen]));
  }
  if (order.size() > named) {
    reasons.push_back("rejected: " + std::to_string(order.size() - named) + " more, no faster");
  }
}

// ---- choice
// --------------------------------------------------------------------------------------

// The least predicted time. Among ties the larger head block wins (less traffic), then fewer
// chunks, then the registry's order.
std::size_t choose_by_model(const Candidates& candidates) {
  double best_us = candidates.front().cost.total_us;
  for (const PlanCandidate& c : candidates) best_us = std::min(best_us, c.cost.total_us);
  std::optional<std::size_t> chosen;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const PlanCandidate& c = candidates[i];
    if (c.cost.total_us > best_us * (1.0 + k_model_tie)) continue;
    if (!chosen) {
      chosen = i;
      continue;
    }
    const PlanCandidate& held = candidates[*chosen];
    const std::pair ours{c.variant->block_heads, -c.cut.chunks};
    const std::pair theirs{held.variant->block_heads, -held.cut.chunks};
    if (ours > theirs) chosen = i;
  }
  return *chosen;
}

bool is_forced(const PlanOverrides& o) {
  return o.target_ctas || o.block_heads || o.tile_rows || o.warps || o.stages || o.ctas_per_sm ||
         o.chunk_rows || o.variant;
}

const TuningSeries* find_series(const PlanRequest& request, std::span<const TuningSeries> tuning) {
  const ProblemSpec& spec = *request.spec;
  for (const TuningSeries& s : tuning) {
    const bool is_device = s.device == request.device->name || s.device == request.device->product;
    const bool is_problem = s.format == spec.format && s.operands == spec.operands &&
                            s.numerics == request.numerics && s.heads == spec.heads &&
                            s.main_width == spec.main_width && s.extra_width == spec.extra_width;
    // The planner sees widths, not lengths: only series of full rows answer it.
    if (is_device && is_problem && s.row_lengths == "full") return &s;
  }
  return nullptr;
}

std::optional<std::size_t> index_of(const Candidates& candidates, std::string_view variant) {
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].variant->name == variant) return i;
  }
  return std::nullopt;
}

// What the tuning table says, when it speaks of this problem and names variants that may be used.
struct Tuned {
  std::size_t index = 0;
  TuningDecision decision;
};

std::optional<Tuned> tuned_choice(const PlanRequest& request, const Candidates& candidates,
                                  const PlannerData& data, std::vector<std::string>& reasons) {
  if (request.mode != SplitMode::exact || is_forced(*request.overrides)) return std::nullopt;
  const TuningSeries* series = find_series(request, data.tuning);
  if (series == nullptr) return std::nullopt;
  const std::optional<std::size_t> incumbent = index_of(candidates, series->incumbent);
  const auto model_prefers = [&](std::string_view challenger) {
    const std::optional<std::size_t> index = index_of(candidates, challenger);
    return incumbent && index &&
           candidates[*index].cost.total_us <
               candidates[*incumbent].cost.total_us * (1.0 - k_model_tie);
  };
  TuningDecision decision = decide_tuned(*series, request.rows, model_prefers);
  const std::optional<std::size_t> index = index_of(candidates, decision.variant);
  if (!index) {
    reasons.push_back("tuning table names " + std::string(decision.variant) +
                      ", which is not in this build's class: the model chooses");
    return std::nullopt;
  }
  reasons.push_back("tuning table: " + decision.reason);
  return Tuned{*index, std::move(decision)};
}

Plan make_plan(const PlanRequest& request, const PlanCandidate& chosen) {
  const VariantTraits& variant = *chosen.variant;
  const bool is_cpu = request.device->arch == 0;
  Plan plan;
  plan.batch = request.rows;
  plan.mode = request.mode;
  plan.numerics = request.numerics;
  plan.variant = variant.name;
  plan.chunk_rows = chosen.cut.chunk_rows;
  plan.block_heads = variant.block_heads;
  plan.head_blocks = static_cast<int>(request.head_blocks(variant));
  plan.tile_rows = variant.tile_rows;
  plan.prefetch = is_cpu ? request.overrides->prefetch.value_or(k_cpu_prefetch_rows_default) : 0;
  plan.chunks = chosen.cut.chunks;
  plan.splits = chosen.cut.splits;
  plan.ctas = std::int64_t{request.rows} * plan.head_blocks * plan.splits;
  plan.ctas_per_sm = chosen.ctas_per_sm;
  const Waves waves = waves_of(plan.ctas, items_at_once(*request.device, variant));
  plan.waves = static_cast<int>(waves.waves);
  plan.utilization = waves.utilization;
  plan.predicted_us = chosen.cost.total_us;
  plan.provenance = is_forced(*request.overrides) ? Provenance::forced : Provenance::modelled;
  return plan;
}

}  // namespace

const PlannerData& built_in_planner_data() {
  static const std::array<CalibrationRecord, 1> calibrations = {source_kernel_calibration()};
  static const PlannerData data{calibrations, built_in_tuning()};
  return data;
}

Expected<Plan> choose_plan(const ProblemSpec& spec, const DeviceSpec& device,
                           std::span<const VariantTraits> candidates, int rows,
                           const PlanOverrides& overrides, const PlannerData& data) {
  const Expected<PlanRequest> made = make_plan_request(spec, device, rows, overrides);
  if (!made.ok()) return made.error();
  const PlanRequest& request = *made;
  Expected<EligibleVariants> eligible = eligible_variants(spec, device, candidates, overrides);
  if (!eligible.ok()) return eligible.error();

  Candidates considered;
  for (const VariantTraits* variant : eligible->variants) {
    const CostConstants constants = constants_for(device, *variant, data.calibrations);
    for (const Cut& cut : cuts_for(request, *variant)) {
      considered.push_back(make_plan_candidate(request, *variant, cut, constants));
    }
  }
  std::vector<std::string> reasons = std::move(eligible->reasons);
  const std::optional<Tuned> tuned = tuned_choice(request, considered, data, reasons);
  const std::size_t index = tuned ? tuned->index : choose_by_model(considered);
  const PlanCandidate& chosen = considered[index];

  Plan plan = make_plan(request, chosen);
  reasons.push_back(request.mode == SplitMode::exact ? describe_exact_cut(request, chosen.cut)
                                                     : describe_free_cut(request, chosen));
  reasons.push_back(describe_choice(request, chosen));
  if (tuned && tuned->decision.is_measured) {
    plan.provenance = Provenance::measured;
    plan.predicted_us = tuned->decision.measured_us;
  }
  if (plan.provenance == Provenance::forced) {
    reasons.push_back("forced by: " + to_string(overrides));
  }
  if (rows > 0) add_rejected(considered, index, reasons);
  reasons.push_back("cost constants " +
                    constants_for(device, *chosen.variant, data.calibrations).source);
  plan.reasons = std::move(reasons);
  return plan;
}

}  // namespace splitwave
