// The cost of one launch under the model, its terms apart. Owns the formula: list-scheduling
// makespan of the launch's items with a shared-bandwidth term, launch and combine on top. Every row
// is taken as full-width: the planner does not see lengths. Called by the planner and by its tests.
#pragma once

#include <cstdint>
#include <string_view>

#include "plan/calibration.h"
#include "splitwave/layout.h"

namespace splitwave {

// What is launched.
struct LaunchShape {
  KvFormat format = KvFormat::v4;
  int rows = 0;
  int heads = 0;
  std::int64_t width = 0;  // KV entries of a row, main + extra
  int block_heads = 1;
  std::int64_t chunk_rows = 1;
  int tile_rows = 1;
  int sm_count = 1;
  int ctas_per_sm = 1;
  std::int64_t l2_bytes = 0;
  bool merges_in_cluster = false;
};

// What sets the time of a KV row inside an item.
enum class RowBound : std::uint8_t { compute, cache, gather };
[[nodiscard]] std::string_view name_of(RowBound bound);

struct Cost {
  double launch_us = 0;
  double items_us = 0;    // makespan of the items
  double combine_us = 0;  // a combine step; 0 with one chunk or a merge in the cluster
  double total_us = 0;

  std::int64_t chunks = 0;  // of a row
  std::int64_t items = 0;   // rows * head blocks * max(1, chunks)
  double full_item_us = 0;  // an item of chunk_rows entries
  double last_item_us = 0;  // a row's last chunk
  double row_ns = 0;        // one KV row of an item
  RowBound bound = RowBound::compute;
  std::int64_t partial_bytes = 0;  // written and read again by a combine step
};

[[nodiscard]] Cost launch_cost(const LaunchShape& shape, const CostConstants& constants);

}  // namespace splitwave
