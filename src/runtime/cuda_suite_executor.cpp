// The decode suite on the CUDA backend: buffers are copied to the device, out and lse come back.
// Owns the copies and the ways to launch ("direct", "graph", "side_stream"); judges nothing.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "runtime/cuda_device.h"
#include "runtime/suite_executors.h"
#include "splitwave/decoder.h"

namespace splitwave {
namespace {

// The first device address after cudaMalloc's alignment that is 16-byte aligned and no more, as the
// host buffers are.
constexpr std::size_t k_least_alignment = 16;
// Larger buffers are sparse on the host: only what the call may touch is copied.
constexpr std::size_t k_sparse_bytes = std::size_t{1} << 30;

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept { std::swap(memory_, other.memory_); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~DeviceBuffer() { cudaFree(memory_); }

  [[nodiscard]] Status reserve(std::size_t bytes) {
    return cuda_status(cudaMalloc(&memory_, bytes + k_least_alignment), "cudaMalloc");
  }
  [[nodiscard]] std::uint8_t* data() const {
    return memory_ == nullptr ? nullptr : static_cast<std::uint8_t*>(memory_) + k_least_alignment;
  }

 private:
  void* memory_ = nullptr;
};

// A byte range of a buffer that is copied.
struct Piece {
  std::size_t offset = 0, bytes = 0;
};

std::vector<Piece> whole(std::span<const std::uint8_t> host) { return {{0, host.size()}}; }

std::vector<Piece> pages_of(KvFormat format, const CacheView& cache,
                            std::span<const std::uint8_t> host) {
  if (host.size() <= k_sparse_bytes) return whole(host);
  std::vector<Piece> pieces;
  for (std::int64_t page = 0; page < cache.pages; ++page) {
    pieces.push_back({static_cast<std::size_t>(page * cache.page_stride_bytes),
                      static_cast<std::size_t>(page_bytes(format, cache.page_size))});
  }
  return pieces;
}

std::vector<Piece> out_pieces(const ProblemSpec& spec, const DecodeCall& call,
                              std::span<const std::uint8_t> host) {
  if (host.size() <= k_sparse_bytes) return whole(host);
  std::vector<Piece> pieces;
  for (std::int64_t row = 0; row < call.rows; ++row) {
    for (std::int64_t head = 0; head < spec.heads; ++head) {
      const std::int64_t element = row * call.out_row_stride + head * call.out_head_stride;
      pieces.push_back({static_cast<std::size_t>(2 * element), 2 * std::size_t{k_value_dims}});
    }
  }
  return pieces;
}

// One call with its buffers on the device.
class DeviceCall {
 public:
  [[nodiscard]] Status upload(const ProblemSpec& spec, const HostCall& host) {
    host_ = &host;
    call_ = host.call;
    const CallBuffers& b = host.buffers;
    out_pieces_ = out_pieces(spec, host.call, b.out);
    lse_pieces_ = whole(b.lse);
    const auto place = [&](std::span<std::uint8_t> bytes, const std::vector<Piece>& pieces,
                           auto& pointer) -> Status {
      if (bytes.empty()) return {};
      buffers_.emplace_back();
      if (Status s = buffers_.back().reserve(bytes.size()); !s) return s;
      pointer = reinterpret_cast<std::decay_t<decltype(pointer)>>(buffers_.back().data());
      return copy(buffers_.back().data(), bytes.data(), pieces, cudaMemcpyHostToDevice);
    };
    Status status = place(b.q, whole(b.q), call_.q);
    const auto then = [&](std::span<std::uint8_t> bytes, const std::vector<Piece>& pieces,
                          auto& pointer) {
      if (status.ok()) status = place(bytes, pieces, pointer);
    };
    then(b.main_cache, pages_of(spec.format, call_.main_cache, b.main_cache),
         call_.main_cache.base);
    then(b.extra_cache, pages_of(spec.format, call_.extra_cache, b.extra_cache),
         call_.extra_cache.base);
    then(b.main_slots, whole(b.main_slots), call_.main_list.slots);
    then(b.extra_slots, whole(b.extra_slots), call_.extra_list.slots);
    then(b.main_lengths, whole(b.main_lengths), call_.main_list.lengths);
    then(b.extra_lengths, whole(b.extra_lengths), call_.extra_list.lengths);
    then(b.sink, whole(b.sink), call_.sink);
    then(b.out, out_pieces_, call_.out);
    then(b.lse, lse_pieces_, call_.lse);
    return status;
  }
  [[nodiscard]] Status download() const {
    const CallBuffers& b = host_->buffers;
    if (b.out.empty()) return {};
    Status status = copy(b.out.data(), reinterpret_cast<const std::uint8_t*>(call_.out),
                         out_pieces_, cudaMemcpyDeviceToHost);
    if (status.ok() && !b.lse.empty()) {
      status = copy(b.lse.data(), reinterpret_cast<const std::uint8_t*>(call_.lse), lse_pieces_,
                    cudaMemcpyDeviceToHost);
    }
    return status;
  }
  [[nodiscard]] const DecodeCall& on(cudaStream_t stream) {
    call_.stream = stream;
    return call_;
  }

 private:
  static Status copy(std::uint8_t* to, const std::uint8_t* from, const std::vector<Piece>& pieces,
                     cudaMemcpyKind kind) {
    for (const Piece& p : pieces) {
      const cudaError_t code = cudaMemcpy(to + p.offset, from + p.offset, p.bytes, kind);
      if (Status s = cuda_status(code, "cudaMemcpy"); !s) return s;
    }
    return {};
  }
  const HostCall* host_ = nullptr;
  DecodeCall call_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<Piece> out_pieces_, lse_pieces_;
};

// The first run of the decoder happens inside the capture; the graph is then replayed twice.
Status run_as_graph(Decoder& decoder, const DecodeCall& call, cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  Status status = cuda_status(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                              "cudaStreamBeginCapture");
  if (!status.ok()) return status;
  const Status captured = decoder.run(call);
  status = cuda_status(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  if (!captured.ok()) status = captured;
  if (status.ok()) {
    status = cuda_status(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  }
  for (int replay = 0; status.ok() && replay < 2; ++replay) {
    status = cuda_status(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
  }
  if (status.ok()) status = cuda_status(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  if (executable != nullptr) cudaGraphExecDestroy(executable);
  if (graph != nullptr) cudaGraphDestroy(graph);
  return status;
}

class CudaSuiteExecutor final : public SuiteExecutor {
 public:
  explicit CudaSuiteExecutor(int device) : device_(device) {}

  Status run(const SuiteRun& run, std::span<const HostCall> calls) override {
    const CurrentDevice current(device_);
    Expected<PlanOverrides> overrides = parse_plan_overrides(run.plan);
    if (!overrides.ok()) return overrides.error();
    Expected<Decoder> decoder = Decoder::create(run.spec, {.backend = Backend::cuda,
                                                           .device = device_,
                                                           .overrides = *overrides,
                                                           .read_environment = false});
    if (!decoder.ok()) return decoder.error();
    cudaStream_t side = nullptr;
    if (run.execution != "direct") {
      const cudaError_t code = cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
      if (Status s = cuda_status(code, "cudaStreamCreateWithFlags"); !s) return s;
    }
    Status status;
    for (const HostCall& call : calls) {
      if (status.ok()) status = run_one(run, call, *decoder, side);
    }
    if (side != nullptr) cudaStreamDestroy(side);
    return status;
  }

 private:
  static Status run_one(const SuiteRun& run, const HostCall& host, Decoder& decoder,
                        cudaStream_t stream) {
    DeviceCall call;
    Status status = call.upload(run.spec, host);
    if (!status.ok()) return status;
    // Uploads ran on the default stream, which a non-blocking stream does not wait for.
    status = cuda_status(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    if (!status.ok()) return status;
    status = run.execution == "graph" ? run_as_graph(decoder, call.on(stream), stream)
                                      : decoder.run(call.on(stream));
    if (!status.ok()) return status;
    status = cuda_status(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return status.ok() ? call.download() : status;
  }
  int device_;
};

}  // namespace

Expected<std::unique_ptr<SuiteExecutor>> make_cuda_suite_executor(int device) {
  Expected<DeviceSpec> found = query_cuda_device(device);
  if (!found.ok()) return found.error();
  return std::unique_ptr<SuiteExecutor>(std::make_unique<CudaSuiteExecutor>(device));
}

// Head blocks that every format's runnable variants offer: each must give the default's bits.
SuiteTraits cuda_suite_traits() {
  std::set<int> offered[2];
  std::array<bool, 2> has_f16{false, false};
  std::string default_class[2];
  for (const VariantListing& v : list_variants()) {
    if (v.traits.backend != "cuda" || !v.runnable || v.traits.is_experiment_arm) continue;
    const auto format = static_cast<std::size_t>(v.traits.format);
    if (v.traits.operands == OperandType::f16) {
      has_f16[format] = true;
    } else {
      std::string& chosen = default_class[format];  // the registry's order is the planner's
      if (chosen.empty()) chosen = v.traits.numerics_class;
      if (v.traits.numerics_class == chosen) offered[format].insert(v.traits.block_heads);
    }
  }
  SuiteTraits traits{.backend = "cuda",
                     .accuracy_plans = {"mode=free,target_ctas=512", "class=latency",
                                        "mode=free,target_ctas=768", "mode=free"},
                     .executions = {"graph", "side_stream"},
                     .has_f16 = has_f16};
  for (const int block_heads : offered[0]) {
    if (!offered[1].contains(block_heads)) continue;
    traits.bitwise_plans.push_back("block_heads=" + std::to_string(block_heads));
  }
  return traits;
}

}  // namespace splitwave
