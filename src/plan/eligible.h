// Which variants a plan may use. Owns the class rule: in exact mode the numerics class is fixed by
// architecture, format, widths and operand type, never by batch or heads, so that a row's bits
// cannot depend on either; and owns the refusals (required, offered, missing). Called by the
// planner only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "splitwave/device.h"
#include "splitwave/plan.h"
#include "splitwave/problem.h"
#include "splitwave/status.h"

namespace splitwave {

struct EligibleVariants {
  std::vector<const VariantTraits*> variants;  // at least one; in the registry's order
  std::string numerics_class;                  // of all of them
  std::vector<std::string> reasons;            // what an override forced, what it cost
};

// True when code built for `built` runs on `arch`: the same capability, or an earlier minor one of
// the same major (CUDA's binary compatibility).
[[nodiscard]] bool runs_on(const VariantTraits& traits, int arch);

// How many CTAs of the variant an SM of the device holds, at most the designed residency; 0: none
// fits. A CPU worker holds one item.
[[nodiscard]] int residency_on(const DeviceSpec& device, const VariantTraits& traits);

// Items that run at once on the whole device: one a resident CTA, or one a cluster. At least 1.
[[nodiscard]] std::int64_t items_at_once(const DeviceSpec& device, const VariantTraits& traits);

// The registry's order is the preference: the class of the first variant that serves and is no
// experiment arm is the default; for the latency class the first that folds its partials, if any.
// block_heads, stages and ctas_per_sm narrow within it; tile_rows, warps and variant change bits
// and may leave it. Free mode keeps the same rule.
[[nodiscard]] Expected<EligibleVariants> eligible_variants(
    const ProblemSpec& spec, const DeviceSpec& device, std::span<const VariantTraits> candidates,
    const PlanOverrides& overrides);

}  // namespace splitwave
