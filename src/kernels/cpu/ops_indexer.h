// The indexer on the CPU: logits, exact top-k and the translation to slots, on a worker pool. Owns
// the workspace and who computes what. Called by src/runtime/ops_cpu.cpp with checked calls. A
// logit's bits come from one kernel call on its own key and query; a list's from the total order:
// threads, batch and slot change nothing.
#pragma once

#include <memory>

#include "kernels/cpu/ops_kernels.h"
#include "kernels/cpu/worker_pool.h"
#include "splitwave/ops.h"

namespace splitwave::cpu {

class IndexerEngine {
 public:
  // Allocates the workspace: its size depends on the spec and the pool only.
  IndexerEngine(const IndexerSpec& spec, const OpsKernels& kernels, WorkerPool& pool);
  ~IndexerEngine();
  IndexerEngine(const IndexerEngine&) = delete;
  IndexerEngine& operator=(const IndexerEngine&) = delete;

  void logits(const LogitsCall& call);
  void top_k(const TopKCall& call);
  void select(const SelectCall& call);

  [[nodiscard]] std::int64_t workspace_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The k largest of one row: ascending indices, then -1; returns how many. candidates: scratch of
// length entries. Radix select: 11, 11 and 10 bits of the order-preserving key, over the whole row
// first, then over the threshold bin alone.
int top_k_row(const OpsKernels& kernels, const float* logits, std::int64_t length, int k,
              std::uint32_t* candidates, std::int32_t* indices);

}  // namespace splitwave::cpu
