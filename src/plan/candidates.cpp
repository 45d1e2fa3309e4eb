// Request, cuts, candidates.
#include "plan/candidates.h"

#include <algorithm>
#include <string>

#include "plan/chunks.h"
#include "plan/eligible.h"
#include "plan/waves.h"

namespace splitwave {
namespace {

// Chunk lengths that the free search tries, and chunks of a row that it allows; 128 splits are
// where FlashAttention's heuristics stop.
constexpr std::int64_t k_searched_cuts_max = 256;
constexpr std::int64_t k_searched_chunks_max = 128;
// Rows of a call; beyond it counts would overflow what a plan holds.
constexpr std::int64_t k_rows_max = 1 << 20;

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

}  // namespace

std::int64_t PlanRequest::ruled_splits(const VariantTraits& variant) const {
  return splits_for_target(*overrides->target_ctas, std::max(1, rows), head_blocks(variant));
}

Expected<PlanRequest> make_plan_request(const ProblemSpec& spec, const DeviceSpec& device, int rows,
                                        const PlanOverrides& overrides) {
  PlanRequest request{&spec, &device, &overrides, rows, 0, SplitMode::exact, spec.numerics};
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

std::vector<Cut> cuts_for(const PlanRequest& request, const VariantTraits& variant) {
  const PlanOverrides& overrides = *request.overrides;
  if (request.mode == SplitMode::exact) {
    const int chunk_rows = overrides.chunk_rows.value_or(
        class_chunk_rows(request.spec->format, request.spec->main_width, request.spec->extra_width,
                         request.numerics));
    return {cut_at(request.width, chunk_rows)};
  }
  const std::int64_t most = splits_max(request.width, variant.tile_rows);
  if (overrides.target_ctas) {
    return {even_cut(request.width, std::min(request.ruled_splits(variant), most))};
  }
  // Whole tiles of every length, uneven cuts included: a short last chunk fits where a slot is
  // left.
  std::vector<Cut> cuts;
  const std::int64_t step = (most + k_searched_cuts_max - 1) / k_searched_cuts_max;
  for (std::int64_t tiles = step; tiles < most + step; tiles += step) {
    const Cut cut = cut_at(request.width, std::min(tiles, most) * variant.tile_rows);
    if (cut.chunks <= k_searched_chunks_max) cuts.push_back(cut);
  }
  return cuts;
}

PlanCandidate make_plan_candidate(const PlanRequest& request, const VariantTraits& variant,
                                  const Cut& cut, const CostConstants& constants) {
  PlanCandidate candidate{&variant, residency_on(*request.device, variant), cut, {}};
  LaunchShape shape;
  shape.format = request.spec->format;
  shape.rows = request.rows;
  shape.heads = request.spec->heads;
  shape.width = request.width;
  shape.block_heads = variant.block_heads;
  shape.chunk_rows = cut.chunk_rows;
  shape.tile_rows = std::max(1, variant.tile_rows);
  shape.sm_count = variant.ctas_per_item > 1
                       ? static_cast<int>(items_at_once(*request.device, variant))
                       : request.device->sm_count;
  shape.ctas_per_sm = candidate.ctas_per_sm;
  shape.l2_bytes = request.device->l2_bytes;
  shape.merges_in_cluster = variant.has_cluster;
  candidate.cost = launch_cost(shape, constants);
  return candidate;
}

}  // namespace splitwave
