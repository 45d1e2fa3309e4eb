// The cost model's constants, as data. Owns CostConstants, how they are modelled from a device's
// specification when nobody has measured them, and the text record by which a measurement replaces
// them. Called by the planner; written by src/tune. Reads no file: the text is the caller's.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "splitwave/device.h"
#include "splitwave/plan.h"
#include "splitwave/status.h"

namespace splitwave {

// An item is (row, chunk, head block). With H = block_heads, an item of n KV rows takes
//   item_us + item_head_us * H + n * max(row_ns + row_head_ns * H, bytes bound) / 1000
// where the bytes bound is what memory gives to as many items as run at once.
struct CostConstants {
  double launch_us = 0;        // once a launch
  double item_us = 0;          // prologue and epilogue of an item: indices, first tile, store
  double item_head_us = 0;     //   and the part that grows with heads: Q in, output out
  double row_ns = 0;           // a KV row: dequantisation and phases
  double row_head_ns = 0;      //   and the multiply-adds of one head
  double gather_gbps = 0;      // random cache rows from DRAM, all SMs together
  double cache_gbps = 0;       // the same rows from the last-level cache
  double combine_us = 0;       // a combine step: launch and latency
  double cluster_us = 0;       // a merge inside a cluster, per item
  double cluster_head_us = 0;  //   and its part that grows with heads
  double residency_share = 0;  // a second CTA on an SM slows each by 1 + this much (0: no cost)
  bool charges_whole_tiles = true;  // a ragged last tile costs a full one
  Provenance provenance = Provenance::modelled;
  std::string source;  // where the numbers come from
};

// Constants of one kernel family on one device. An empty device means any.
struct CalibrationRecord {
  std::string device;          // the table's key or the product's name
  std::string numerics_class;  // which variants they describe
  CostConstants constants;
};

// From the datasheet alone: scaled from constants that were measured on one H200.
[[nodiscard]] CostConstants modelled_constants(const DeviceSpec& device,
                                               const VariantTraits& traits);

// The first record that names this device (or any) and this class; modelled_constants otherwise.
[[nodiscard]] CostConstants constants_for(const DeviceSpec& device, const VariantTraits& traits,
                                          std::span<const CalibrationRecord> records);

// Text form, one key=value a line; several records follow each other. Version 1:
//   splitwave-calibration 1
//   device=h200
//   numerics_class=...
//   launch_us=0.6
//   ... every double of CostConstants, each exactly once ...
//   charges_whole_tiles=1
//   source=...
// parse refuses an unknown, missing or repeated key and a value that is not finite or below zero.
[[nodiscard]] std::string to_text(const CalibrationRecord& record);
[[nodiscard]] Expected<std::vector<CalibrationRecord>> parse_calibration(const std::string& text);

}  // namespace splitwave
