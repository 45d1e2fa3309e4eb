// The operators on the CUDA backend: preparation and workspace at creation, launches afterwards. A
// run allocates nothing, synchronises nothing, and may be the first thing that a stream capture
// sees.
#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include "kernels/cuda/cache/launch.h"
#include "kernels/cuda/compressor/launch.h"
#include "kernels/cuda/indexer/launch.h"
#include "kernels/cuda/topk/launch.h"
#include "runtime/ops_backend.h"
#include "runtime/ops_cases.h"

namespace splitwave {
namespace {

Status status_of(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  return environment_error(std::string(what) + ": " + cudaGetErrorString(error));
}

// Makes the object's device current for the time of a call.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) {
    error_ = cudaGetDevice(&before_);
    if (error_ == cudaSuccess && before_ != device) error_ = cudaSetDevice(device);
    changed_ = error_ == cudaSuccess && before_ != device;
  }
  ~DeviceGuard() {
    if (changed_) cudaSetDevice(before_);
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  [[nodiscard]] Status status() const { return status_of(error_, "cannot select the CUDA device"); }

 private:
  int before_ = 0;
  bool changed_ = false;
  cudaError_t error_ = cudaSuccess;
};

// Owned device memory.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { cudaFree(data_); }
  [[nodiscard]] Status allocate(std::int64_t bytes) {
    if (bytes == 0) return {};
    bytes_ = bytes;
    return status_of(
        cudaMalloc(&data_, static_cast<std::size_t>(bytes)),
        ("cannot allocate a workspace of " + std::to_string(bytes) + " bytes").c_str());
  }
  [[nodiscard]] std::uint8_t* data() const { return static_cast<std::uint8_t*>(data_); }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

// That the device exists and some kernel of this build runs on it.
Status check_device(int device) {
  int count = 0;
  if (const Status s = status_of(cudaGetDeviceCount(&count), "no usable CUDA device"); !s) return s;
  if (device < 0 || device >= count) {
    return environment_error("device = " + std::to_string(device) + ": 0 to " +
                             std::to_string(count - 1) + " exist");
  }
  return {};
}

class CudaIndexer final : public IndexerBackend {
 public:
  CudaIndexer(const IndexerSpec& spec, int device) : spec_(spec), device_(device) {}
  [[nodiscard]] Status prepare();
  Status logits(const LogitsCall& call) override {
    const DeviceGuard guard(device_);
    if (!guard.status()) return guard.status();
    return start_logits(call);
  }
  Status top_k(const TopKCall& call) override;
  Status select(const SelectCall& call) override;
  std::int64_t workspace_bytes() const override { return logits_.bytes() + survivors_.bytes(); }

 private:
  [[nodiscard]] Status start_logits(const LogitsCall& call);

  IndexerSpec spec_;
  int device_;
  int arch_ = 0;      // compute capability * 10
  int ctas_[3] = {};  // grids by page size: any, multiples of 16, multiples of 64
  [[nodiscard]] static int page_class(int page_size) {
    return page_size % 64 == 0 ? 2 : page_size % 16 == 0 ? 1 : 0;
  }
  DeviceBuffer logits_;
  DeviceBuffer survivors_;
};

Status CudaIndexer::prepare() {
  if (const Status s = check_device(device_); !s) return s;
  const DeviceGuard guard(device_);
  if (!guard.status()) return guard.status();
  int sms = 0;
  cudaError_t error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device_);
  int major = 0;
  int minor = 0;
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device_);
  }
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device_);
  }
  arch_ = 10 * major + minor;
  for (const int page_size : {1, 16, 64}) {
    const cuda::LogitsLauncher& launcher = cuda::find_logits_launcher(spec_, page_size, arch_);
    if (error == cudaSuccess) error = launcher.prepare();
    int per_sm = 0;
    if (error == cudaSuccess) {
      error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
          &per_sm, launcher.kernel, launcher.threads,
          static_cast<std::size_t>(launcher.shared_bytes));
    }
    ctas_[page_class(page_size)] = sms * per_sm;
  }
  if (error == cudaSuccess) error = cuda::prepare_topk_small();
  if (error == cudaSuccess) error = cuda::prepare_topk_large();
  if (const Status s = status_of(error, "cannot load the indexer's kernels"); !s) return s;
  const std::int64_t cells = std::int64_t{spec_.rows_max} * spec_.length_max;
  if (const Status s = logits_.allocate(spec_.owns_logits ? cells * 4 : 0); !s) return s;
  // A smaller k may need a deeper tournament's survivors: never more than twice k_max's.
  std::int64_t most = 0;
  for (int k = spec_.k_max; k >= 1; k /= 2) {
    most = std::max(most, cuda::topk_workspace_bytes(spec_.length_max, k, spec_.rows_max));
    if (k > cuda::k_topk_small_k_max) {
      most = std::max(most, cuda::topk_workspace_bytes(spec_.length_max, cuda::k_topk_small_k_max,
                                                       spec_.rows_max));
    }
  }
  return survivors_.allocate(most);
}

Status CudaIndexer::start_logits(const LogitsCall& call) {
  cuda::LogitsParams p;
  p.rows = call.rows;
  p.heads = spec_.heads;
  p.length_max = spec_.length_max;
  p.q = static_cast<const std::uint8_t*>(call.q);
  p.q_row_stride_bytes = call.q_row_stride_bytes;
  p.q_scales = call.q_scales;
  p.q_scales_row_stride = call.q_scales_row_stride;
  p.weights = call.weights;
  p.weights_row_stride = call.weights_row_stride;
  p.keys = call.keys.base;
  p.pages = call.keys.pages;
  p.page_size = call.keys.page_size;
  p.page_stride_bytes = call.keys.page_stride_bytes;
  p.page_table = call.key_pages.pages;
  p.page_table_stride = call.key_pages.row_stride;
  p.lengths = call.lengths;
  p.logits = call.logits;
  p.logits_row_stride = call.logits_row_stride;
  const int page_size = call.keys.page_size;
  const cuda::LogitsLauncher& launcher = cuda::find_logits_launcher(spec_, page_size, arch_);
  return status_of(launcher.launch(p, ctas_[page_class(page_size)], stream_of(call.stream)),
                   "indexer logits");
}

Status CudaIndexer::top_k(const TopKCall& call) {
  const DeviceGuard guard(device_);
  if (!guard.status()) return guard.status();
  cuda::TopKParams p;
  p.levels.length_max = spec_.length_max;
  p.levels.k = call.k;
  p.rows = call.rows;
  p.logits = call.logits;
  p.logits_row_stride = call.logits_row_stride;
  p.lengths = call.lengths;
  p.indices = call.indices;
  p.indices_row_stride = call.indices_row_stride;
  p.counts = call.counts;
  return status_of(cuda::launch_top_k(p, survivors_.data(), stream_of(call.stream)), "top-k");
}

Status CudaIndexer::select(const SelectCall& call) {
  const DeviceGuard guard(device_);
  if (!guard.status()) return guard.status();
  LogitsCall scored = call.logits;
  if (scored.logits == nullptr) {
    scored.logits = reinterpret_cast<float*>(logits_.data());
    scored.logits_row_stride = spec_.length_max;
  }
  if (const Status s = start_logits(scored); !s) return s;
  cuda::TopKParams p;
  p.levels.length_max = spec_.length_max;
  p.levels.k = call.k;
  p.rows = scored.rows;
  p.logits = scored.logits;
  p.logits_row_stride = scored.logits_row_stride;
  p.lengths = scored.lengths;
  p.indices = call.indices;
  p.indices_row_stride = call.indices_row_stride;
  p.counts = call.counts;
  p.slots = call.slots;
  p.slots_row_stride = call.slots_row_stride;
  p.kv_pages = call.kv_pages.pages;
  p.kv_pages_row_stride = call.kv_pages.row_stride;
  p.kv_page_size = call.kv_page_size;
  p.kv_pool_pages = call.kv_pool_pages;
  return status_of(cuda::launch_top_k(p, survivors_.data(), stream_of(scored.stream)), "select");
}

class CudaCacheWriter final : public CacheWriterBackend {
 public:
  explicit CudaCacheWriter(int device) : device_(device) {}
  [[nodiscard]] Status prepare() {
    if (const Status s = check_device(device_); !s) return s;
    const DeviceGuard guard(device_);
    if (!guard.status()) return guard.status();
    cudaError_t error = cuda::prepare_write_kv();
    if (error == cudaSuccess) error = cuda::prepare_write_indexer();
    return status_of(error, "cannot load the cache writers");
  }
  Status write_kv(const KvWriteCall& call) override {
    const DeviceGuard guard(device_);
    if (!guard.status()) return guard.status();
    return status_of(cuda::launch_write_kv(call, stream_of(call.stream)), "write_kv");
  }
  Status write_indexer_keys(const IndexerKeyWriteCall& call) override {
    const DeviceGuard guard(device_);
    if (!guard.status()) return guard.status();
    return status_of(cuda::launch_write_indexer_keys(call, stream_of(call.stream)),
                     "write_indexer_keys");
  }
  Status prepare_indexer_queries(const IndexerQueryCall& call) override {
    const DeviceGuard guard(device_);
    if (!guard.status()) return guard.status();
    return status_of(cuda::launch_prepare_queries(call, stream_of(call.stream)),
                     "prepare_indexer_queries");
  }

 private:
  int device_;
};

class CudaCompressor final : public CompressorBackend {
 public:
  CudaCompressor(const CompressorSpec& spec, int device) : spec_(spec), device_(device) {}
  [[nodiscard]] Status prepare() {
    if (const Status s = check_device(device_); !s) return s;
    const DeviceGuard guard(device_);
    if (!guard.status()) return guard.status();
    cudaError_t error = cuda::prepare_compress_step();
    if (error == cudaSuccess) error = cuda::prepare_compress_tokens();
    return status_of(error, "cannot load the compressor's kernels");
  }
  Status run(const CompressCall& call) override {
    const DeviceGuard guard(device_);
    if (!guard.status()) return guard.status();
    return status_of(call.one_token_each
                         ? cuda::launch_compress_step(spec_, call, stream_of(call.stream))
                         : cuda::launch_compress_tokens(spec_, call, stream_of(call.stream)),
                     "compress");
  }
  Status copy_state(const StateCopyCall& call) override {
    const DeviceGuard guard(device_);
    if (!guard.status()) return guard.status();
    return status_of(cuda::launch_copy_state(spec_, call, stream_of(call.stream)), "copy_state");
  }

 private:
  CompressorSpec spec_;
  int device_;
};

// The contract cases' arena on the device: grows to the largest case.
class DeviceMemory final : public OpsMemory {
 public:
  explicit DeviceMemory(int device) : device_(device) {}
  ~DeviceMemory() override { cudaFree(data_); }
  Expected<std::uint8_t*> to_backend(OpsArena& arena) override {
    const DeviceGuard guard(device_);
    if (!guard.status()) return guard.status().error();
    if (arena.used_bytes() > bytes_) {
      cudaFree(data_);
      data_ = nullptr;
      bytes_ = arena.used_bytes();
      if (const Status s = status_of(cudaMalloc(&data_, bytes_), "cannot allocate a case"); !s) {
        return s.error();
      }
    }
    const cudaError_t error =
        cudaMemcpy(data_, arena.data(), arena.used_bytes(), cudaMemcpyHostToDevice);
    if (const Status s = status_of(error, "cannot upload a case"); !s) return s.error();
    return static_cast<std::uint8_t*>(data_);
  }
  Status from_backend(OpsArena& arena) override {
    const DeviceGuard guard(device_);
    if (!guard.status()) return guard.status();
    cudaError_t error = cudaDeviceSynchronize();
    if (error == cudaSuccess) {
      error = cudaMemcpy(arena.data(), data_, arena.used_bytes(), cudaMemcpyDeviceToHost);
    }
    return status_of(error, "cannot download a case");
  }

 private:
  int device_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

template <class Made, class Interface, class... Args>
Expected<std::unique_ptr<Interface>> prepared(Args&&... args) {
  auto made = std::make_unique<Made>(std::forward<Args>(args)...);
  if (const Status s = made->prepare(); !s) return s.error();
  return std::unique_ptr<Interface>(std::move(made));
}

}  // namespace

Expected<std::unique_ptr<IndexerBackend>> make_cuda_indexer(const IndexerSpec& spec, int device) {
  return prepared<CudaIndexer, IndexerBackend>(spec, device);
}
Expected<std::unique_ptr<CacheWriterBackend>> make_cuda_cache_writer(int device) {
  return prepared<CudaCacheWriter, CacheWriterBackend>(device);
}
Expected<std::unique_ptr<CompressorBackend>> make_cuda_compressor(const CompressorSpec& spec,
                                                                  int device) {
  return prepared<CudaCompressor, CompressorBackend>(spec, device);
}
Expected<std::unique_ptr<OpsMemory>> make_device_memory(int device) {
  if (const Status s = check_device(device); !s) return s.error();
  return std::unique_ptr<OpsMemory>(std::make_unique<DeviceMemory>(device));
}

}  // namespace splitwave
