// The operators on the CPU backend: a worker pool, the fastest kernel table, the engines.
#include "formats/ops_compressor.h"
#include "kernels/cpu/ops_indexer.h"
#include "kernels/cpu/ops_writes.h"
#include "runtime/ops_backend.h"

namespace splitwave {
namespace {

const cpu::OpsKernels& fastest_kernels() { return *cpu::runnable_ops_kernels().tables[0]; }

class CpuIndexer final : public IndexerBackend {
 public:
  CpuIndexer(const IndexerSpec& spec, int threads)
      : pool_(threads), engine_(spec, fastest_kernels(), pool_) {}
  Status logits(const LogitsCall& call) override {
    engine_.logits(call);
    return {};
  }
  Status top_k(const TopKCall& call) override {
    engine_.top_k(call);
    return {};
  }
  Status select(const SelectCall& call) override {
    engine_.select(call);
    return {};
  }
  std::int64_t workspace_bytes() const override { return engine_.workspace_bytes(); }

 private:
  cpu::WorkerPool pool_;
  cpu::IndexerEngine engine_;
};

class CpuCacheWriter final : public CacheWriterBackend {
 public:
  explicit CpuCacheWriter(int threads) : pool_(threads) {}
  Status write_kv(const KvWriteCall& call) override {
    cpu::write_kv(fastest_kernels(), pool_, call);
    return {};
  }
  Status write_indexer_keys(const IndexerKeyWriteCall& call) override {
    cpu::write_indexer_keys(fastest_kernels(), pool_, call);
    return {};
  }
  Status prepare_indexer_queries(const IndexerQueryCall& call) override {
    cpu::prepare_indexer_queries(fastest_kernels(), pool_, call);
    return {};
  }

 private:
  cpu::WorkerPool pool_;
};

class CpuCompressor final : public CompressorBackend {
 public:
  CpuCompressor(const CompressorSpec& spec, int threads) : spec_(spec), pool_(threads) {}
  Status run(const CompressCall& call) override {
    cpu::compress(fastest_kernels(), pool_, spec_, call);
    return {};
  }
  Status copy_state(const StateCopyCall& call) override {
    reference_copy_state(spec_, call);
    return {};
  }

 private:
  CompressorSpec spec_;
  cpu::WorkerPool pool_;
};

}  // namespace

std::unique_ptr<IndexerBackend> make_cpu_indexer(const IndexerSpec& spec, int threads) {
  return std::make_unique<CpuIndexer>(spec, threads);
}
std::unique_ptr<CacheWriterBackend> make_cpu_cache_writer(int threads) {
  return std::make_unique<CpuCacheWriter>(threads);
}
std::unique_ptr<CompressorBackend> make_cpu_compressor(const CompressorSpec& spec, int threads) {
  return std::make_unique<CpuCompressor>(spec, threads);
}

}  // namespace splitwave
