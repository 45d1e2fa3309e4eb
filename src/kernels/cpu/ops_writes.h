// Cache writes and the compressor on the CPU, on a worker pool. Owns who computes what; the bytes
// are those of src/formats/ops_cache.h and ops_compressor.h, bit for bit. Called by
// src/runtime/ops_cpu.cpp with checked calls. Nothing is allocated.
#pragma once

#include "kernels/cpu/ops_kernels.h"
#include "kernels/cpu/worker_pool.h"
#include "splitwave/ops.h"

namespace splitwave::cpu {

void write_kv(const OpsKernels& kernels, WorkerPool& pool, const KvWriteCall& call);
void write_indexer_keys(const OpsKernels& kernels, WorkerPool& pool,
                        const IndexerKeyWriteCall& call);
void prepare_indexer_queries(const OpsKernels& kernels, WorkerPool& pool,
                             const IndexerQueryCall& call);

// Sequences in parallel, the tokens of one in order. A kernel table without fused multiply-adds
// runs the reference's scalar steps instead of its own.
void compress(const OpsKernels& kernels, WorkerPool& pool, const CompressorSpec& spec,
              const CompressCall& call);

}  // namespace splitwave::cpu
