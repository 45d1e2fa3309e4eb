// Plan fields come from plan_for, kernel resources from traits_for.
#include "experiment/launch_echo.h"

#include <algorithm>
#include <optional>

namespace splitwave::experiment {
namespace {

template <class T>
std::string difference(const char* field, const std::optional<T>& asked, T runs) {
  if (!asked || *asked == runs) return {};
  return std::string(field) + "=" + std::to_string(*asked) + " was asked for, " +
         std::to_string(runs) + " runs";
}

const char* word(SplitMode mode) { return mode == SplitMode::exact ? "exact" : "free"; }
const char* word(NumericsClass c) {
  return c == NumericsClass::throughput ? "throughput" : "latency";
}

}  // namespace

Echo launch_echo(const Decoder& decoder, int concurrency) {
  const Plan& plan = decoder.plan_for(concurrency);
  const VariantTraits& traits = decoder.traits_for(concurrency);
  Echo e;
  e.concurrency = concurrency;
  e.backend = decoder.backend() == Backend::cuda ? "cuda" : "cpu";
  e.variant = plan.variant;
  e.numerics_class = traits.numerics_class;
  e.isa = traits.isa;
  e.is_exact = plan.mode == SplitMode::exact;
  e.chunk_rows = plan.chunk_rows;
  e.block_heads = plan.block_heads;
  e.tile_rows = plan.tile_rows;
  e.prefetch = plan.prefetch;
  e.splits = plan.splits;
  e.warps = traits.warps;
  e.stages = traits.stages;
  e.ctas_per_sm = plan.ctas_per_sm;
  e.registers = traits.registers;
  e.shared_bytes = traits.shared_bytes;
  e.ctas = plan.ctas;
  e.predicted_us = plan.predicted_us;
  return e;
}

std::string override_mismatch(const PlanOverrides& o, const Decoder& decoder, int concurrency) {
  const Plan& plan = decoder.plan_for(concurrency);
  const VariantTraits& traits = decoder.traits_for(concurrency);
  if (o.mode && *o.mode != plan.mode) {
    return std::string("mode=") + word(*o.mode) + " was asked for, " + word(plan.mode) + " runs";
  }
  if (o.numerics && *o.numerics != plan.numerics) {
    return std::string("class=") + word(*o.numerics) + " was asked for, " + word(plan.numerics) +
           " runs";
  }
  if (o.variant && *o.variant != plan.variant) {
    return "variant=" + *o.variant + " was asked for, " + plan.variant + " runs";
  }
  if (o.target_ctas) {
    // The rule's splits, or as many as the list's entries allow: never more, and never in exact
    // mode.
    const std::int64_t base = std::int64_t{std::max(1, concurrency)} * plan.head_blocks;
    const std::int64_t rule = (*o.target_ctas + base - 1) / base;
    if (plan.mode != SplitMode::free || plan.splits > rule) {
      return "target_ctas=" + std::to_string(*o.target_ctas) + " gives at most " +
             std::to_string(rule) + " splits, " + std::to_string(plan.splits) + " run";
    }
  }
  const std::string differences[] = {
      difference("block_heads", o.block_heads, plan.block_heads),
      difference("tile_rows", o.tile_rows, plan.tile_rows),
      difference("chunk_rows", o.chunk_rows, plan.chunk_rows),
      difference("prefetch", o.prefetch, plan.prefetch),
      difference("ctas_per_sm", o.ctas_per_sm, plan.ctas_per_sm),
      difference("warps", o.warps, traits.warps),
      difference("stages", o.stages, traits.stages),
  };
  for (const std::string& d : differences) {
    if (!d.empty()) return d;
  }
  return {};
}

}  // namespace splitwave::experiment
