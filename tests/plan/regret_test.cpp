// Regret: the choice against an exhaustive search under the model, at every batch of 1..128,
// because the peaks lie between the powers of two.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "plan/chunks.h"
#include "plan/cost.h"
#include "plan/eligible.h"
#include "plan/plan_fixtures.h"
#include "plan/planner.h"
#include "plan/waves.h"

namespace splitwave {
namespace {

struct Shape {
  const char* name;
  KvFormat format;
  int heads;
  int main_width;
  int extra_width;
};

constexpr Shape k_shapes[] = {
    {"V4-Flash", KvFormat::v4, 64, 128, 512}, {"V4-Flash, 16 heads", KvFormat::v4, 16, 128, 512},
    {"V4-Pro", KvFormat::v4, 128, 128, 1024}, {"C128", KvFormat::v4, 64, 128, 1116},
    {"V3.2", KvFormat::v32, 128, 2048, 0},
};

ProblemSpec spec_of(const Shape& shape) {
  ProblemSpec spec;
  spec.format = shape.format;
  spec.heads = shape.heads;
  spec.main_width = shape.main_width;
  spec.extra_width = shape.extra_width;
  return spec;
}

std::vector<VariantTraits> registry_of(KvFormat format, const char* isa) {
  std::vector<VariantTraits> registry = hopper_registry();
  for (VariantTraits& t : registry) {
    t.format = format;
    t.isa = isa;
    t.tile_rows = 64;
  }
  return registry;
}

double cost_us(const ProblemSpec& spec, const DeviceSpec& device, const VariantTraits& variant,
               int rows, std::int64_t chunk_rows) {
  LaunchShape shape;
  shape.format = spec.format;
  shape.rows = rows;
  shape.heads = spec.heads;
  shape.width = std::int64_t{spec.main_width} + spec.extra_width;
  shape.block_heads = variant.block_heads;
  shape.chunk_rows = chunk_rows;
  shape.tile_rows = variant.tile_rows;
  shape.sm_count = device.sm_count;
  shape.ctas_per_sm = residency_on(device, variant);
  shape.l2_bytes = device.l2_bytes;
  return launch_cost(shape, modelled_constants(device, variant)).total_us;
}

// Every head block with every chunk length in steps of 16 rows, from one tile to the whole row.
double exhaustive_us(const ProblemSpec& spec, const DeviceSpec& device,
                     const std::vector<VariantTraits>& registry, int rows) {
  double best = 1e300;
  const int width = spec.main_width + spec.extra_width;
  for (const VariantTraits& variant : registry) {
    for (int chunk_rows = variant.tile_rows; chunk_rows <= width; chunk_rows += 16) {
      best = std::min(best, cost_us(spec, device, variant, rows, chunk_rows));
    }
  }
  return best;
}

TEST(Regret, ExactModeChoosesTheBestHeadBlockAtEveryBatch) {
  for (const char* device_name : {"h200", "rtx-pro-6000", "a100"}) {
    const DeviceSpec device = device_named(device_name);
    for (const Shape& shape : k_shapes) {
      const ProblemSpec spec = spec_of(shape);
      std::vector<VariantTraits> registry =
          registry_of(shape.format, device.arch == 90 ? "wgmma" : "mma.sync");
      for (VariantTraits& t : registry) {
        t.archs = {device.arch};
        t.shared_bytes = 90 * 1024;
      }
      const int chunk_rows =
          class_chunk_rows(spec.format, spec.main_width, spec.extra_width, spec.numerics);
      for (int rows = 1; rows <= 128; ++rows) {
        double best = 1e300;
        for (const VariantTraits& variant : registry) {
          best = std::min(best, cost_us(spec, device, variant, rows, chunk_rows));
        }
        const double chosen = choose_plan(spec, device, registry, rows, {}).value().predicted_us;
        ASSERT_LE(chosen, best * (1 + k_model_tie) * (1 + 1e-12))
            << shape.name << " on " << device_name << " at " << rows;
      }
    }
  }
}

TEST(Regret, FreeModeStaysCloseToAnExhaustiveSearchOfEveryChunkLength) {
  const DeviceSpec h200 = device_named("h200");
  for (const Shape& shape : k_shapes) {
    const ProblemSpec spec = spec_of(shape);
    const std::vector<VariantTraits> registry = registry_of(shape.format, "wgmma");
    PlanOverrides free;
    free.mode = SplitMode::free;
    double worst = 0;
    int worst_rows = 0;
    for (int rows = 1; rows <= 128; ++rows) {
      const double best = exhaustive_us(spec, h200, registry, rows);
      const double chosen = choose_plan(spec, h200, registry, rows, free).value().predicted_us;
      if (chosen / best > worst) {
        worst = chosen / best;
        worst_rows = rows;
      }
    }
    std::printf("free mode, %s: worst regret %.3f at batch %d\n", shape.name, worst, worst_rows);
    EXPECT_LE(worst, 1.03) << shape.name << " at " << worst_rows;
  }
}

// The choice by fullest waves alone, among the same candidates: what the planner would lose without
// the fixed cost of an item and the schedule of the tail.
TEST(Regret, AChoiceByUtilisationAloneLosesBetweenThePowersOfTwo) {
  const DeviceSpec h200 = device_named("h200");
  const ProblemSpec spec = spec_of(k_shapes[0]);
  const std::vector<VariantTraits> registry = registry_of(KvFormat::v4, "wgmma");
  double worst = 0;
  double worst_at_powers = 0;
  for (int rows = 1; rows <= 128; ++rows) {
    double best = 1e300;
    double fullest_us = 0;
    double fullest = -1;
    for (const VariantTraits& variant : registry) {
      const std::int64_t items = std::int64_t{rows} * (spec.heads / variant.block_heads);
      const double cost = cost_us(spec, h200, variant, rows, 640);
      const double utilization = waves_of(items, h200.sm_count).utilization;
      best = std::min(best, cost);
      if (utilization >= fullest) {  // a tie goes to the larger head block
        fullest = utilization;
        fullest_us = cost;
      }
    }
    worst = std::max(worst, fullest_us / best);
    if ((rows & (rows - 1)) == 0) worst_at_powers = std::max(worst_at_powers, fullest_us / best);
  }
  std::printf("by utilisation alone: worst regret %.2f, at powers of two %.2f\n", worst,
              worst_at_powers);
  EXPECT_GT(worst, 1.25);
  EXPECT_LT(worst_at_powers, worst) << "a grid of powers of two would have missed it";
}

TEST(Regret, TheChosenHeadBlocksAreTheOnesThatWereMeasuredBest) {
  // One H200, 2026-11-30, one chunk a row, 64 heads: the fastest head block at each batch.
  const std::pair<int, int> best[] = {{1, 8},   {8, 8},   {16, 8},  {32, 16},  {48, 32},
                                      {64, 32}, {80, 64}, {96, 64}, {128, 64}, {256, 64}};
  for (const auto& [rows, block_heads] : best) {
    EXPECT_EQ(choose_plan(v4_flash(), device_named("h200"), hopper_registry(), rows, {})
                  .value()
                  .block_heads,
              block_heads)
        << rows;
  }
}

}  // namespace
}  // namespace splitwave
