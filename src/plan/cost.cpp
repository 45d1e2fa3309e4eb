// One launch: row time, item times, schedule, combine.
#include "plan/cost.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "plan/makespan.h"

namespace splitwave {
namespace {

// fp32 O and two scalars of one (row, head, chunk), written by an item and read by the combine
// step.
constexpr std::int64_t k_partial_bytes_per_head = (k_value_dims + 2) * 4 * 2;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Time that memory needs for one KV row of one item while `active` items run. Head blocks of one
// row run side by side: DRAM is read once for them, the cache is read by each.
double bytes_bound_ns(const LaunchShape& shape, const CostConstants& constants, double active,
                      std::int64_t head_blocks, RowBound* bound) {
  const double bytes = row_bytes(shape.format) * active;
  const double sharing = std::min<double>(static_cast<double>(head_blocks), active);
  const double gather_ns = constants.gather_gbps > 0 ? bytes / sharing / constants.gather_gbps : 0;
  const double cache_ns = constants.cache_gbps > 0 ? bytes / constants.cache_gbps : 0;
  *bound = gather_ns >= cache_ns ? RowBound::gather : RowBound::cache;
  return std::max(gather_ns, cache_ns);
}

double item_us(const LaunchShape& shape, const CostConstants& constants, const Cost& cost,
               std::int64_t entries, double slowdown) {
  const std::int64_t charged = constants.charges_whole_tiles
                                   ? divide_up(entries, shape.tile_rows) * shape.tile_rows
                                   : entries;
  double fixed_us = constants.item_us + constants.item_head_us * shape.block_heads;
  if (shape.merges_in_cluster && cost.chunks > 1) {
    fixed_us += constants.cluster_us + constants.cluster_head_us * shape.block_heads;
  }
  return fixed_us * slowdown + static_cast<double>(charged) * cost.row_ns / 1000.0;
}

double combine_us(const LaunchShape& shape, const CostConstants& constants,
                  std::int64_t partial_bytes) {
  // Partials that fit the cache never reach DRAM.
  const bool is_cached = partial_bytes <= shape.l2_bytes;
  const double gbps = is_cached ? constants.cache_gbps : constants.gather_gbps;
  return constants.combine_us + (gbps > 0 ? static_cast<double>(partial_bytes) / gbps / 1000.0 : 0);
}

}  // namespace

std::string_view name_of(RowBound bound) {
  switch (bound) {
    case RowBound::compute:
      return "compute";
    case RowBound::cache:
      return "cache bandwidth";
    case RowBound::gather:
      return "gather bandwidth";
  }
  return "compute";
}

Cost launch_cost(const LaunchShape& shape, const CostConstants& constants) {
  SPLITWAVE_CHECK(shape.block_heads >= 1 && shape.chunk_rows >= 1 && shape.tile_rows >= 1 &&
                      shape.sm_count >= 1 && shape.ctas_per_sm >= 1,
                  "a launch shape below one");
  Cost cost;
  if (shape.rows <= 0) return cost;
  const std::int64_t head_blocks = divide_up(shape.heads, shape.block_heads);
  cost.chunks = divide_up(shape.width, shape.chunk_rows);
  const std::int64_t row_items = std::int64_t{shape.rows} * head_blocks;
  cost.items = row_items * std::max<std::int64_t>(1, cost.chunks);
  const std::int64_t slots = std::int64_t{shape.sm_count} * shape.ctas_per_sm;

  // CTAs are spread over the SMs first: an SM is shared only once all have one.
  const double residents = static_cast<double>(
      std::clamp<std::int64_t>(divide_up(cost.items, shape.sm_count), 1, shape.ctas_per_sm));
  const double slowdown = 1.0 + constants.residency_share * (residents - 1.0);
  const double active = static_cast<double>(std::min(cost.items, slots));
  const double compute_ns =
      (constants.row_ns + constants.row_head_ns * shape.block_heads) * slowdown;
  const double memory_ns = bytes_bound_ns(shape, constants, active, head_blocks, &cost.bound);
  cost.row_ns = std::max(compute_ns, memory_ns);
  if (compute_ns >= memory_ns) cost.bound = RowBound::compute;

  const std::int64_t full_chunks = std::max<std::int64_t>(1, cost.chunks) - 1;
  const std::int64_t last_entries = shape.width - full_chunks * shape.chunk_rows;
  cost.full_item_us = item_us(shape, constants, cost, shape.chunk_rows, slowdown);
  cost.last_item_us = item_us(shape, constants, cost, last_entries, slowdown);
  const std::array<ItemGroup, 2> items = {
      {{row_items * full_chunks, cost.full_item_us}, {row_items, cost.last_item_us}}};
  cost.items_us = list_makespan_us(items, slots);
  cost.launch_us = constants.launch_us;
  if (cost.chunks > 1 && !shape.merges_in_cluster) {
    cost.partial_bytes =
        std::int64_t{shape.rows} * shape.heads * cost.chunks * k_partial_bytes_per_head;
    cost.combine_us = combine_us(shape, constants, cost.partial_bytes);
  }
  cost.total_us = cost.launch_us + cost.items_us + cost.combine_us;
  return cost;
}

}  // namespace splitwave
