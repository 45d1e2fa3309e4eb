// What a plan is chosen from. Owns the request (a problem after its overrides), the cuts that a
// mode allows, and the candidates: an eligible variant with a cut and its cost. Called by
// planner.cpp only.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/cost.h"
#include "splitwave/device.h"
#include "splitwave/plan.h"
#include "splitwave/problem.h"
#include "splitwave/status.h"

namespace splitwave {

// The problem after overrides. The pointers are the caller's and outlive the request.
struct PlanRequest {
  const ProblemSpec* spec = nullptr;
  const DeviceSpec* device = nullptr;
  const PlanOverrides* overrides = nullptr;
  int rows = 0;
  std::int64_t width = 0;  // entries of a full row, main + extra
  SplitMode mode = SplitMode::exact;
  NumericsClass numerics = NumericsClass::throughput;

  [[nodiscard]] std::int64_t head_blocks(const VariantTraits& variant) const {
    return (spec->heads + variant.block_heads - 1) / variant.block_heads;
  }
  // The free rule's count before the list bounds it; target_ctas must be given.
  [[nodiscard]] std::int64_t ruled_splits(const VariantTraits& variant) const;
};

struct Cut {
  int chunk_rows = 1;
  int chunks = 0;  // of a full-width row
  int splits = 1;  // max(1, chunks): a row without entries still has its zeros written
};

struct PlanCandidate {
  const VariantTraits* variant = nullptr;
  int ctas_per_sm = 1;
  Cut cut;
  Cost cost;
};

// Refuses shapes outside the contract and overrides that contradict each other.
[[nodiscard]] Expected<PlanRequest> make_plan_request(const ProblemSpec& spec,
                                                      const DeviceSpec& device, int rows,
                                                      const PlanOverrides& overrides);

// Exact mode: one, the class's. Free mode: the rule's one, or all distinct ones to search.
[[nodiscard]] std::vector<Cut> cuts_for(const PlanRequest& request, const VariantTraits& variant);

[[nodiscard]] PlanCandidate make_plan_candidate(const PlanRequest& request,
                                                const VariantTraits& variant, const Cut& cut,
                                                const CostConstants& constants);

}  // namespace splitwave
