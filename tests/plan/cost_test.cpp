// The cost model: its terms, and how far it is from what was measured on one H200.
#include "plan/cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "plan/plan_fixtures.h"

namespace splitwave {
namespace {

struct Measured {
  const char* isa;
  bool merges_in_cluster;
  int heads;
  int chunks;
  int batch;
  int block_heads;
  double us;
};

// One NVIDIA H200 (driver 580.159.04, CUDA 13.0), 2026-11-30, CUDA-graph replays with a cold L2,
// 128 + 512 rows of V4: this project's prototype with one CTA a (row, chunk, head block).
constexpr Measured k_measured[] = {
    {"wgmma", true, 64, 1, 1, 8, 17.0},       {"wgmma", true, 64, 1, 8, 8, 17.2},
    {"wgmma", true, 64, 1, 16, 8, 17.3},      {"wgmma", true, 64, 1, 32, 16, 18.8},
    {"wgmma", true, 64, 1, 48, 32, 22.4},     {"wgmma", true, 64, 1, 64, 32, 23.1},
    {"wgmma", true, 64, 1, 80, 64, 31.8},     {"wgmma", true, 64, 1, 96, 64, 32.8},
    {"wgmma", true, 64, 1, 128, 64, 33.9},    {"wgmma", true, 64, 1, 256, 64, 65.6},
    {"wgmma", true, 64, 2, 1, 8, 12.0},       {"wgmma", true, 64, 2, 8, 8, 12.7},
    {"wgmma", true, 64, 2, 16, 16, 14.1},     {"wgmma", true, 64, 2, 32, 32, 17.4},
    {"wgmma", true, 64, 2, 48, 64, 24.7},     {"wgmma", true, 64, 2, 64, 64, 26.2},
    {"wgmma", true, 64, 2, 80, 64, 46.1},     {"wgmma", true, 64, 2, 96, 64, 47.0},
    {"wgmma", true, 64, 2, 128, 64, 50.3},    {"wgmma", true, 64, 2, 256, 64, 95.8},
    {"wgmma", true, 64, 5, 1, 8, 7.51},       {"wgmma", true, 64, 5, 8, 32, 11.6},
    {"wgmma", true, 16, 1, 128, 16, 22.3},    {"wgmma", true, 16, 1, 256, 16, 43.3},
    {"mma.sync", true, 64, 1, 1, 8, 17.8},    {"mma.sync", true, 64, 1, 8, 8, 18.0},
    {"mma.sync", true, 64, 1, 16, 8, 18.5},   {"mma.sync", true, 64, 1, 32, 16, 20.3},
    {"mma.sync", true, 64, 1, 48, 32, 27.4},  {"mma.sync", true, 64, 1, 64, 32, 28.3},
    {"mma.sync", true, 64, 1, 80, 64, 41.9},  {"mma.sync", true, 64, 1, 96, 64, 42.6},
    {"mma.sync", true, 64, 1, 128, 64, 43.7}, {"mma.sync", true, 64, 1, 256, 64, 84.8},
    {"wgmma", false, 64, 5, 1, 8, 9.2},       {"wgmma", false, 64, 5, 8, 32, 14.3},
    {"wgmma", false, 64, 2, 16, 16, 17.2},    {"wgmma", false, 64, 2, 32, 32, 22.7},
    {"wgmma", false, 64, 2, 64, 64, 35.9},
};

LaunchShape shape_of(const Measured& m, const DeviceSpec& device) {
  LaunchShape shape;
  shape.rows = m.batch;
  shape.heads = m.heads;
  shape.width = 640;
  shape.block_heads = m.block_heads;
  shape.chunk_rows = (640 + m.chunks - 1) / m.chunks;
  shape.tile_rows = 128;
  shape.sm_count = device.sm_count;
  shape.l2_bytes = device.l2_bytes;
  shape.merges_in_cluster = m.merges_in_cluster;
  return shape;
}

TEST(Cost, FollowsWhatWasMeasuredOnTheH200) {
  const DeviceSpec h200 = device_named("h200");
  double squares = 0;
  double worst = 0;
  std::string worst_name;
  for (const Measured& m : k_measured) {
    VariantTraits traits = hopper_variant(m.block_heads);
    traits.isa = m.isa;
    const Cost cost = launch_cost(shape_of(m, h200), modelled_constants(h200, traits));
    const double error = std::log(cost.total_us / m.us);
    squares += error * error;
    if (std::abs(error) > std::abs(worst)) {
      worst = error;
      worst_name = std::string(m.isa) + ", " + std::to_string(m.chunks) + " chunks, batch " +
                   std::to_string(m.batch) + ": " + std::to_string(cost.total_us) + " us against " +
                   std::to_string(m.us);
    }
  }
  const double rms = std::sqrt(squares / std::size(k_measured));
  std::printf("cost model against %zu measurements: rms %.1f %%, worst %s\n", std::size(k_measured),
              rms * 100, worst_name.c_str());
  EXPECT_LT(rms, 0.06);
  EXPECT_LT(std::abs(worst), 0.15) << worst_name;
}

CostConstants plain_constants() {
  CostConstants c;
  c.launch_us = 1;
  c.item_us = 2;
  c.item_head_us = 0.1;
  c.row_ns = 10;
  c.row_head_ns = 1;
  c.gather_gbps = 1e9;
  c.cache_gbps = 1e9;
  c.combine_us = 3;
  c.cluster_us = 4;
  c.cluster_head_us = 0.5;
  return c;
}

LaunchShape plain_shape() {
  LaunchShape shape;
  shape.rows = 4;
  shape.heads = 16;
  shape.width = 640;
  shape.block_heads = 8;
  shape.chunk_rows = 256;
  shape.tile_rows = 32;
  shape.sm_count = 8;
  shape.l2_bytes = 1 << 30;
  return shape;
}

TEST(Cost, AddsUpItsTerms) {
  // 4 rows x 2 head blocks x 3 chunks (256, 256, 128) on 8 slots: two rounds of 256, one of 128.
  const Cost cost = launch_cost(plain_shape(), plain_constants());
  EXPECT_EQ(cost.chunks, 3);
  EXPECT_EQ(cost.items, 24);
  EXPECT_DOUBLE_EQ(cost.full_item_us, 2 + 0.8 + 256 * 18 / 1000.0);
  EXPECT_DOUBLE_EQ(cost.last_item_us, 2 + 0.8 + 128 * 18 / 1000.0);
  EXPECT_NEAR(cost.items_us, 2 * cost.full_item_us + cost.last_item_us, 1e-9);
  EXPECT_EQ(cost.partial_bytes, 4 * 16 * 3 * 514 * 4 * 2);
  EXPECT_NEAR(cost.combine_us, 3, 1e-3);
  EXPECT_NEAR(cost.total_us, cost.launch_us + cost.items_us + cost.combine_us, 1e-9);
  EXPECT_EQ(cost.bound, RowBound::compute);
}

TEST(Cost, ChargesWholeTilesOnlyWhereTheKernelDoes) {
  LaunchShape shape = plain_shape();
  shape.chunk_rows = 100;
  CostConstants constants = plain_constants();
  EXPECT_DOUBLE_EQ(launch_cost(shape, constants).full_item_us, 2.8 + 128 * 18 / 1000.0);
  constants.charges_whole_tiles = false;
  EXPECT_DOUBLE_EQ(launch_cost(shape, constants).full_item_us, 2.8 + 100 * 18 / 1000.0);
}

TEST(Cost, AMergeInTheClusterNeedsNoCombineStep) {
  LaunchShape shape = plain_shape();
  shape.merges_in_cluster = true;
  const Cost cost = launch_cost(shape, plain_constants());
  EXPECT_EQ(cost.combine_us, 0);
  EXPECT_EQ(cost.partial_bytes, 0);
  EXPECT_DOUBLE_EQ(cost.full_item_us, 2.8 + 4 + 0.5 * 8 + 256 * 18 / 1000.0);
  shape.chunk_rows = 640;
  EXPECT_DOUBLE_EQ(launch_cost(shape, plain_constants()).last_item_us, 2.8 + 640 * 18 / 1000.0)
      << "one chunk has nothing to merge";
}

TEST(Cost, SharedBandwidthBoundsARowOnceEnoughItemsRun) {
  LaunchShape shape = plain_shape();
  shape.chunk_rows = 640;
  CostConstants constants = plain_constants();
  constants.gather_gbps = 100;
  shape.rows = 1;
  // Two head blocks share one read: 584 bytes at 100 GB/s are 5.84 ns a row, below 18 ns of
  // compute.
  EXPECT_EQ(launch_cost(shape, constants).bound, RowBound::compute);
  shape.rows = 4;
  const Cost cost = launch_cost(shape, constants);
  EXPECT_EQ(cost.bound, RowBound::gather);
  EXPECT_DOUBLE_EQ(cost.row_ns, 584.0 * 8 / 2 / 100);
  shape.rows = 400;  // still 8 slots: no more items run at once
  EXPECT_DOUBLE_EQ(launch_cost(shape, constants).row_ns, cost.row_ns);
  constants.cache_gbps = 100;
  EXPECT_EQ(launch_cost(shape, constants).bound, RowBound::cache) << "each head block reads it";
}

TEST(Cost, ASecondCtaOnAnSmSlowsBothOnlyWhenItIsThere) {
  LaunchShape shape = plain_shape();
  shape.chunk_rows = 640;
  shape.ctas_per_sm = 2;
  CostConstants constants = plain_constants();
  constants.residency_share = 0.8;
  const double alone = launch_cost(shape, constants).items_us;  // 8 items on 8 SMs
  shape.rows = 8;                                               // 16 items, two an SM
  EXPECT_NEAR(launch_cost(shape, constants).items_us, alone * 1.8, 1e-9);
}

TEST(Cost, AnEmptyLaunchCostsNothingAndAnEmptyListOnlyItsItems) {
  LaunchShape shape = plain_shape();
  shape.rows = 0;
  EXPECT_EQ(launch_cost(shape, plain_constants()).total_us, 0);
  shape.rows = 4;
  shape.width = 0;
  const Cost cost = launch_cost(shape, plain_constants());
  EXPECT_EQ(cost.items, 8);
  EXPECT_EQ(cost.chunks, 0);
  EXPECT_DOUBLE_EQ(cost.total_us, 1 + 2.8);
}

}  // namespace
}  // namespace splitwave
