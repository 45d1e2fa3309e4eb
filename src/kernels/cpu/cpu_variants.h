// The CPU backend's variants as data. Owns their names, head blocks and tuned defaults; a variant
// is one ISA's kernel table with one head block. Called by src/runtime.
#pragma once

#include <string>
#include <vector>

#include "kernels/cpu/decode_kernels.h"
#include "splitwave/plan.h"
#include "splitwave/problem.h"
#include "splitwave/status.h"

namespace splitwave::cpu {

// KV rows of one softmax step. Changes bits: part of the numerics class's name. 64: the longest
// tile whose V panel and probabilities fit a 32 KB L1 together (docs/kernels/cpu.md, "Tile rows").
inline constexpr int k_tile_rows_default = 64;

// The variants of one table, smallest head block first.
[[nodiscard]] std::vector<VariantTraits> variants_of(const char* isa, const char* arithmetic,
                                                     KvFormat format, int tile_rows);

struct CpuCandidates {
  const DecodeKernels* kernels = nullptr;
  std::vector<VariantTraits> traits;
};

// The table to run (the fastest runnable one, or the one of overrides.variant) and its variants.
// An unknown or not runnable variant, or a tile_rows that no table takes, is refused.
[[nodiscard]] Expected<CpuCandidates> cpu_candidates(KvFormat format,
                                                     const PlanOverrides& overrides);

}  // namespace splitwave::cpu
