// A launch decision as data. Owns PlanOverrides (what an operator may force, by flag or by
// SPLITWAVE_PLAN), VariantTraits (what a kernel variant publishes) and Plan (the choice, with its
// reasons). The functions that make plans are in src/plan; nothing here touches a device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "splitwave/device.h"
#include "splitwave/problem.h"
#include "splitwave/status.h"

namespace splitwave {

// Every field of SPLITWAVE_PLAN ("mode=free,target_ctas=512"). Unset: the planner's choice. Within
// a numerics class block_heads, stages, ctas_per_sm, prefetch and overlap change speed, never bits;
// mode, class, target_ctas, chunk_rows, tile_rows, warps and a variant of another class change
// bits.
struct PlanOverrides {
  std::optional<SplitMode> mode;
  std::optional<NumericsClass> numerics;
  std::optional<int> target_ctas;
  std::optional<int> block_heads;
  std::optional<int> tile_rows;
  std::optional<int> warps;
  std::optional<int> stages;
  std::optional<int> ctas_per_sm;
  std::optional<int> chunk_rows;
  std::optional<int> prefetch;  // CPU: KV rows ahead
  std::optional<int> overlap;   // engine: 0 or 1
  std::optional<std::string> variant;

  bool operator==(const PlanOverrides&) const = default;
};

// Parses SPLITWAVE_PLAN's text; an unknown key or value is an error that names it and what would
// work. Empty text: no override.
[[nodiscard]] Expected<PlanOverrides> parse_plan_overrides(const std::string& text);
// The inverse, keys in declaration order.
[[nodiscard]] std::string to_string(const PlanOverrides& overrides);

// What a kernel variant publishes. A variant is one compiled configuration; the registry lists
// them.
struct VariantTraits {
  std::string name;            // e.g. "v4_mma_n16_w8_s3", unique
  std::string backend;         // "cpu" or "cuda"
  std::string numerics_class;  // variants of one class are bitwise equal
  std::string isa;             // "avx512", "mma.sync", "wgmma", ...
  KvFormat format = KvFormat::v4;
  OperandType operands = OperandType::bf16;
  std::vector<int> archs;  // compute capabilities * 10 it is built for; empty for the CPU
  int block_heads = 0;     // heads of one item
  int tile_rows = 0;       // KV rows of one softmax step
  int warps = 0;           // all warps of a CTA
  int stages = 0;
  int threads = 0;
  int registers = 0;      // per thread at launch; 0 for the CPU
  int shared_bytes = 0;   // static + dynamic
  int ctas_per_sm = 0;    // designed residency
  int ctas_per_item = 1;  // of a cluster that shares one item
  bool has_cluster = false;
  bool folds_partials = false;     // a row's last CTA does: no combine launch
  bool is_experiment_arm = false;  // never chosen by default
};

enum class Provenance : std::uint8_t { modelled, measured, forced };

// One launch. For the CPU backend a "CTA" is an item and an "SM" a worker.
struct Plan {
  int batch = 0;
  SplitMode mode = SplitMode::exact;
  NumericsClass numerics = NumericsClass::throughput;
  std::string variant;
  int chunk_rows = 0;   // rows of one chunk
  int block_heads = 0;  // heads of one item
  int head_blocks = 0;  // ceil(heads / block_heads)
  int tile_rows = 0;
  int prefetch = 0;
  int chunks = 0;         // chunks of a full-width row
  int splits = 0;         // = chunks in exact mode; the free rule's count in free mode
  std::int64_t ctas = 0;  // batch * head_blocks * splits
  int ctas_per_sm = 0;
  int waves = 0;           // ceil(ctas / (SMs * ctas_per_sm))
  double utilization = 0;  // ctas / (waves * SMs * ctas_per_sm)
  double predicted_us = 0;
  Provenance provenance = Provenance::modelled;
  std::vector<std::string> reasons;
};

}  // namespace splitwave
