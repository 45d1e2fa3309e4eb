// Runs one decode call on the worker pool. Owns the work items (row, chunk, head block), who
// computes them, the order in which a row's chunks are folded, and the workspace. Must not know
// plans or environment variables: the caller says head block, chunk rows, tile rows and prefetch.
// Called by src/runtime/cpu_backend.cpp.
//
// Bits: a chunk's partial depends on the row's own entries, tile_rows and the kernel table's
// arithmetic. Partials of a row are folded left to right by DecodeKernels::merge, whoever computed
// them, so threads, batch, slot and head block never change a result.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/decode_kernels.h"
#include "splitwave/problem.h"

namespace splitwave::cpu {

struct EngineLimits {
  int threads = 1;
  int heads = 0;           // of the problem
  int block_heads_max = 0;  // largest head block of any launch
  int tile_rows_max = 0;
};

// One launch's choices.
struct LaunchShape {
  int block_heads = 0;
  int tile_rows = 0;
  int chunk_rows = 0;
  int prefetch = 0;
};

class DecodeEngine {
 public:
  // Allocates the workspace: its size depends on the limits only.
  DecodeEngine(const ProblemSpec& spec, const DecodeKernels& kernels, const EngineLimits& limits);
  ~DecodeEngine();
  DecodeEngine(const DecodeEngine&) = delete;
  DecodeEngine& operator=(const DecodeEngine&) = delete;

  // The call's arguments have been checked; shape is within the limits. Allocates nothing.
  void run(const DecodeCall& call, const LaunchShape& shape);

  [[nodiscard]] std::int64_t workspace_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace splitwave::cpu
