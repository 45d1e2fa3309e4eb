// The operator objects over the two backends: environment, choice of backend, checks.
#include "splitwave/ops.h"

#include <utility>

#include "runtime/backend.h"
#include "runtime/environment.h"
#include "runtime/ops_backend.h"
#include "runtime/ops_check.h"

namespace splitwave {
namespace {

template <class Made>
struct Choice {
  Backend backend = Backend::cpu;
  std::unique_ptr<Made> made;
};

// Auto takes CUDA if it can be made; a refusal of the problem itself is reported, not papered over.
template <class Made, class MakeCpu, class MakeCuda>
Expected<Choice<Made>> choose(const OpsOptions& options, MakeCpu&& make_cpu, MakeCuda&& make_cuda) {
  Environment environment;
  if (options.read_environment) {
    Expected<Environment> read = read_environment();
    if (!read) return read.error();
    environment = std::move(*read);
  }
  Backend asked = options.backend;
  if (asked == Backend::auto_detect) asked = environment.backend;
  if (asked != Backend::cpu) {
    Expected<std::unique_ptr<Made>> cuda = make_cuda(options.device);
    if (cuda) return Choice<Made>{Backend::cuda, std::move(*cuda)};
    if (asked == Backend::cuda || cuda.error().kind != ErrorKind::environment) return cuda.error();
  }
  const int threads = options.threads != 0 ? options.threads : environment.threads.value_or(0);
  if (threads < 0 || threads > 1024) {
    return bad_input("threads = " + std::to_string(threads) +
                     ": 0 (all cores) to 1024 is required");
  }
  return Choice<Made>{Backend::cpu, make_cpu(cpu_device(threads).sm_count)};
}

}  // namespace

struct Indexer::Impl {
  IndexerSpec spec;
  Choice<IndexerBackend> choice;
};

Expected<Indexer> Indexer::create(const IndexerSpec& spec, const OpsOptions& options) {
  if (Status status = check_indexer_spec(spec); !status) return status.error();
  Expected<Choice<IndexerBackend>> choice = choose<IndexerBackend>(
      options, [&](int threads) { return make_cpu_indexer(spec, threads); },
      [&](int device) { return make_cuda_indexer(spec, device); });
  if (!choice) return choice.error();
  return Indexer(std::make_unique<Impl>(Impl{spec, std::move(*choice)}));
}
Indexer::Indexer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Indexer::Indexer(Indexer&&) noexcept = default;
Indexer& Indexer::operator=(Indexer&&) noexcept = default;
Indexer::~Indexer() = default;

Status Indexer::logits(const LogitsCall& call) {
  if (Status status = check_logits_call(impl_->spec, call); !status) return status;
  return call.rows == 0 ? Status{} : impl_->choice.made->logits(call);
}
Status Indexer::top_k(const TopKCall& call) {
  if (Status status = check_top_k_call(impl_->spec, call); !status) return status;
  return call.rows == 0 ? Status{} : impl_->choice.made->top_k(call);
}
Status Indexer::select(const SelectCall& call) {
  if (Status status = check_select_call(impl_->spec, call); !status) return status;
  return call.logits.rows == 0 ? Status{} : impl_->choice.made->select(call);
}
const IndexerSpec& Indexer::spec() const { return impl_->spec; }
Backend Indexer::backend() const { return impl_->choice.backend; }
std::int64_t Indexer::workspace_bytes() const { return impl_->choice.made->workspace_bytes(); }

struct CacheWriter::Impl {
  Choice<CacheWriterBackend> choice;
};

Expected<CacheWriter> CacheWriter::create(const OpsOptions& options) {
  Expected<Choice<CacheWriterBackend>> choice =
      choose<CacheWriterBackend>(options, make_cpu_cache_writer, make_cuda_cache_writer);
  if (!choice) return choice.error();
  return CacheWriter(std::make_unique<Impl>(Impl{std::move(*choice)}));
}
CacheWriter::CacheWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CacheWriter::CacheWriter(CacheWriter&&) noexcept = default;
CacheWriter& CacheWriter::operator=(CacheWriter&&) noexcept = default;
CacheWriter::~CacheWriter() = default;

Status CacheWriter::write_kv(const KvWriteCall& call) {
  if (Status status = check_kv_write_call(call); !status) return status;
  return call.rows == 0 ? Status{} : impl_->choice.made->write_kv(call);
}
Status CacheWriter::write_indexer_keys(const IndexerKeyWriteCall& call) {
  if (Status status = check_indexer_key_write_call(call); !status) return status;
  return call.rows == 0 ? Status{} : impl_->choice.made->write_indexer_keys(call);
}
Status CacheWriter::prepare_indexer_queries(const IndexerQueryCall& call) {
  if (Status status = check_indexer_query_call(call); !status) return status;
  return call.rows == 0 ? Status{} : impl_->choice.made->prepare_indexer_queries(call);
}
Backend CacheWriter::backend() const { return impl_->choice.backend; }

struct Compressor::Impl {
  CompressorSpec spec;
  Choice<CompressorBackend> choice;
};

Expected<Compressor> Compressor::create(const CompressorSpec& spec, const OpsOptions& options) {
  if (Status status = check_compressor_spec(spec); !status) return status.error();
  Expected<Choice<CompressorBackend>> choice = choose<CompressorBackend>(
      options, [&](int threads) { return make_cpu_compressor(spec, threads); },
      [&](int device) { return make_cuda_compressor(spec, device); });
  if (!choice) return choice.error();
  return Compressor(std::make_unique<Impl>(Impl{spec, std::move(*choice)}));
}
Compressor::Compressor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Compressor::Compressor(Compressor&&) noexcept = default;
Compressor& Compressor::operator=(Compressor&&) noexcept = default;
Compressor::~Compressor() = default;

Status Compressor::run(const CompressCall& call) {
  if (Status status = check_compress_call(impl_->spec, call); !status) return status;
  return call.sequences == 0 ? Status{} : impl_->choice.made->run(call);
}
Status Compressor::copy_state(const StateCopyCall& call) {
  if (Status status = check_state_copy_call(call); !status) return status;
  return call.count == 0 ? Status{} : impl_->choice.made->copy_state(call);
}
const CompressorSpec& Compressor::spec() const { return impl_->spec; }
Backend Compressor::backend() const { return impl_->choice.backend; }

}  // namespace splitwave
