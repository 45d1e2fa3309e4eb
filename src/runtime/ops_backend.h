// The seam between the public operator objects and a backend. Owns three interfaces; ops_cpu.cpp
// and ops_cuda.cpp implement them. ops.cpp checks a call's host-visible arguments before a backend
// sees it.
#pragma once

#include <memory>

#include "splitwave/ops.h"

namespace splitwave {

class IndexerBackend {
 public:
  virtual ~IndexerBackend() = default;
  [[nodiscard]] virtual Status logits(const LogitsCall& call) = 0;
  [[nodiscard]] virtual Status top_k(const TopKCall& call) = 0;
  [[nodiscard]] virtual Status select(const SelectCall& call) = 0;
  [[nodiscard]] virtual std::int64_t workspace_bytes() const = 0;
};

class CacheWriterBackend {
 public:
  virtual ~CacheWriterBackend() = default;
  [[nodiscard]] virtual Status write_kv(const KvWriteCall& call) = 0;
  [[nodiscard]] virtual Status write_indexer_keys(const IndexerKeyWriteCall& call) = 0;
  [[nodiscard]] virtual Status prepare_indexer_queries(const IndexerQueryCall& call) = 0;
};

class CompressorBackend {
 public:
  virtual ~CompressorBackend() = default;
  [[nodiscard]] virtual Status run(const CompressCall& call) = 0;
  [[nodiscard]] virtual Status copy_state(const StateCopyCall& call) = 0;
};

// threads >= 1.
[[nodiscard]] std::unique_ptr<IndexerBackend> make_cpu_indexer(const IndexerSpec& spec,
                                                               int threads);
[[nodiscard]] std::unique_ptr<CacheWriterBackend> make_cpu_cache_writer(int threads);
[[nodiscard]] std::unique_ptr<CompressorBackend> make_cpu_compressor(const CompressorSpec& spec,
                                                                     int threads);

// Without a CUDA build, or without a usable device: an environment error that says which.
[[nodiscard]] Expected<std::unique_ptr<IndexerBackend>> make_cuda_indexer(const IndexerSpec& spec,
                                                                          int device);
[[nodiscard]] Expected<std::unique_ptr<CacheWriterBackend>> make_cuda_cache_writer(int device);
[[nodiscard]] Expected<std::unique_ptr<CompressorBackend>> make_cuda_compressor(
    const CompressorSpec& spec, int device);

}  // namespace splitwave
