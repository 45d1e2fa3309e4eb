// Traits as a registry would publish them, for tests of the planner. Owns nothing of any real
// kernel: sizes follow the H200 prototype's (384 threads, one CTA an SM) and the portable path's.
#pragma once

#include <string>
#include <vector>

#include "plan/devices.h"
#include "splitwave/plan.h"
#include "splitwave/problem.h"

namespace splitwave {

inline VariantTraits hopper_variant(int block_heads) {
  VariantTraits t;
  t.name = "v4_wgmma_n" + std::to_string(block_heads);
  t.backend = "cuda";
  t.numerics_class = "v4-bf16-t128";
  t.isa = "wgmma";
  t.archs = {90};
  t.block_heads = block_heads;
  t.tile_rows = 128;
  t.warps = 12;
  t.stages = 7;
  t.threads = 384;
  t.registers = 168;
  t.shared_bytes = 225888;
  t.ctas_per_sm = 1;
  return t;
}

inline std::vector<VariantTraits> hopper_registry() {
  return {hopper_variant(8), hopper_variant(16), hopper_variant(32), hopper_variant(64)};
}

inline VariantTraits cpu_variant(int block_heads) {
  VariantTraits t;
  t.name = "cpu_v4_n" + std::to_string(block_heads);
  t.backend = "cpu";
  t.numerics_class = "cpu-v4-t32";
  t.isa = "avx512_bf16";
  t.block_heads = block_heads;
  t.tile_rows = 32;
  t.warps = 1;
  t.stages = 1;
  t.threads = 1;
  t.ctas_per_sm = 1;
  return t;
}

inline std::vector<VariantTraits> cpu_registry() {
  return {cpu_variant(8), cpu_variant(16), cpu_variant(32), cpu_variant(64)};
}

inline DeviceSpec cpu_device(int workers) {
  DeviceSpec device;
  device.name = "cpu";
  device.product = "two cores";
  device.sm_count = workers;
  device.l2_bytes = 32 << 20;
  device.dram_gbps = 40;
  return device;
}

inline DeviceSpec device_named(const char* name) { return find_device(name).value(); }

inline ProblemSpec v4_flash(int heads = 64) {
  ProblemSpec spec;
  spec.heads = heads;
  spec.main_width = 128;
  spec.extra_width = 512;
  return spec;
}

inline PlanOverrides overrides_of(const std::string& text) {
  return parse_plan_overrides(text).value();
}

}  // namespace splitwave
