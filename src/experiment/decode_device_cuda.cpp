// Device memory, one stream, CUDA events. Inputs are mirrored block by block, so that a host
// pointer into a block has its twin at the same offset; what a gate brings from elsewhere is
// uploaded for the call. Graph mode captures a whole sample as one graph, which is what deployments
// replay.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "experiment/decode_device.h"
#include "measure/cuda_timer.h"
#include "measure/nvml.h"

namespace splitwave::experiment {
namespace {

Status check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return {};
  return environment_error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(code));
}

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceBuffer() { cudaFree(memory_); }

  // At least that many bytes; the content is lost when it grows.
  Status reserve(std::size_t bytes) {
    if (bytes <= bytes_) return {};
    cudaFree(memory_);
    memory_ = nullptr;
    bytes_ = 0;
    if (Status s = check(cudaMalloc(&memory_, bytes), "cudaMalloc"); !s.ok()) return s;
    bytes_ = bytes;
    return {};
  }
  [[nodiscard]] std::uint8_t* data() const { return static_cast<std::uint8_t*>(memory_); }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

// One stream's inputs on the device.
struct Mirror {
  const StreamInputs* inputs = nullptr;
  std::array<std::span<const std::uint8_t>, 4> host;
  std::array<DeviceBuffer, 4> device;
  DeviceBuffer out;

  // The device twin of a host pointer; null when it lies in none of the blocks.
  template <class T>
  [[nodiscard]] const T* twin(const T* p) const {
    const auto* byte = reinterpret_cast<const std::uint8_t*>(p);
    for (std::size_t i = 0; i < host.size(); ++i) {
      const std::uint8_t* first = host[i].data();
      if (first == nullptr || byte < first || byte >= first + host[i].size()) continue;
      return reinterpret_cast<const T*>(device[i].data() + (byte - first));
    }
    return nullptr;
  }
};

using GraphKey = std::tuple<const Decoder*, int, int, int>;  // decoder, stream, point, batch

class CudaDevice final : public DecodeDevice {
 public:
  CudaDevice(Execution execution, int device, measure::EventTimer timer)
      : execution_(execution), device_(device), timer_(std::move(timer)) {}
  ~CudaDevice() override {
    for (const auto& [key, graph] : graphs_) cudaGraphExecDestroy(graph.exec);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  Status open() {
    if (Status s = check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
        !s.ok())
      return s;
    char bus[32] = {};
    if (Status s = check(cudaDeviceGetPCIBusId(bus, sizeof bus, device_), "PCI bus id"); !s.ok())
      return s;
    auto nvml = measure::Nvml::open();
    if (!nvml.ok()) return nvml.error();
    const auto index = nvml->device_of_pci(bus);
    if (!index.ok()) return index.error();
    nvml_device_ = *index;
    nvml_.emplace(std::move(*nvml));
    return {};
  }

  [[nodiscard]] std::int64_t cache_bytes() const override {
    int bytes = 0;
    cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device_);
    return bytes;
  }

  Status add_stream(const StreamInputs& inputs) override {
    Mirror mirror;
    mirror.inputs = &inputs;
    mirror.host = inputs.blocks();
    for (std::size_t i = 0; i < mirror.host.size(); ++i) {
      const auto block = mirror.host[i];
      if (block.empty()) continue;
      if (Status s = mirror.device[i].reserve(block.size()); !s.ok()) return s;
      if (Status s = check(cudaMemcpy(mirror.device[i].data(), block.data(), block.size(),
                                      cudaMemcpyHostToDevice),
                           "copying inputs");
          !s.ok())
        return s;
    }
    const ProblemSpec& spec = inputs.spec();
    const auto vectors =
        static_cast<std::size_t>(spec.rows_max) * static_cast<std::size_t>(spec.heads);
    if (Status s = mirror.out.reserve(vectors * k_value_dims * 2); !s.ok()) return s;
    mirrors_.push_back(std::move(mirror));
    return {};
  }

  Status run_host(Decoder& decoder, int stream, const DecodeCall& call) override;
  Expected<double> time_calls(Decoder& decoder, const TimedCalls& what) override;

  Expected<double> clock_ghz() override {
    const auto reading = nvml_->read(nvml_device_);
    if (!reading.ok()) return reading.error();
    if (!reading->sm_clock_mhz) return environment_error("NVML reports no SM clock");
    return *reading->sm_clock_mhz * 1e-3;
  }
  [[nodiscard]] std::string clock_source() const override { return "NVML, SM clock"; }

 private:
  struct Graph {
    cudaGraphExec_t exec = nullptr;
    int calls = 0;
  };

  [[nodiscard]] DecodeCall device_call(const TimedCalls& what, int set) const {
    const Mirror& m = mirrors_[static_cast<std::size_t>(what.stream)];
    DecodeCall call = m.inputs->call(what.point, what.batch, set % m.inputs->sets(what.point));
    call.q = m.twin(call.q);
    call.main_cache.base = m.twin(call.main_cache.base);
    call.extra_cache.base = m.twin(call.extra_cache.base);
    for (IndexList* list : {&call.main_list, &call.extra_list}) {
      list->slots = m.twin(list->slots);
      list->lengths = m.twin(list->lengths);
    }
    call.out = reinterpret_cast<std::uint16_t*>(m.out.data());
    call.out_head_stride = k_value_dims;
    call.out_row_stride = std::int64_t{m.inputs->spec().heads} * k_value_dims;
    call.stream = stream_;
    return call;
  }

  // The device twin of gate memory: inside a block, or uploaded into a scratch buffer.
  template <class T>
  Status place(const Mirror& m, const T*& p, std::int64_t elements, DeviceBuffer& scratch) {
    if (p == nullptr || elements == 0) return {};
    if (const T* twin = m.twin(p); twin != nullptr) {
      p = twin;
      return {};
    }
    const std::size_t bytes = static_cast<std::size_t>(elements) * sizeof(T);
    if (Status s = scratch.reserve(bytes); !s.ok()) return s;
    if (Status s = check(cudaMemcpy(scratch.data(), p, bytes, cudaMemcpyHostToDevice), "upload");
        !s.ok())
      return s;
    p = reinterpret_cast<const T*>(scratch.data());
    return {};
  }

  Expected<Graph> graph_of(Decoder& decoder, const TimedCalls& what);

  Execution execution_;
  int device_;
  cudaStream_t stream_ = nullptr;
  measure::EventTimer timer_;
  std::optional<measure::Nvml> nvml_;
  int nvml_device_ = 0;
  std::vector<Mirror> mirrors_;
  std::array<DeviceBuffer, 7> scratch_;
  std::map<GraphKey, Graph> graphs_;
};

Status CudaDevice::run_host(Decoder& decoder, int stream, const DecodeCall& host) {
  const Mirror& m = mirrors_[static_cast<std::size_t>(stream)];
  const ProblemSpec& spec = m.inputs->spec();
  DecodeCall call = host;
  const std::int64_t last = host.rows - 1;
  const std::int64_t q_elements =
      last * host.q_row_stride + (spec.heads - 1) * host.q_head_stride + qk_dims(spec.format);
  if (Status s = place(m, call.q, q_elements, scratch_[0]); !s.ok()) return s;
  call.main_cache.base = m.twin(host.main_cache.base);
  call.extra_cache.base = m.twin(host.extra_cache.base);
  const int widths[2] = {spec.main_width, spec.extra_width};
  IndexList* lists[2] = {&call.main_list, &call.extra_list};
  for (std::size_t c = 0; c < 2; ++c) {
    const std::int64_t entries = widths[c] == 0 ? 0 : last * lists[c]->row_stride + widths[c];
    if (Status s = place(m, lists[c]->slots, entries, scratch_[1 + c]); !s.ok()) return s;
    if (Status s = place(m, lists[c]->lengths, host.rows, scratch_[3 + c]); !s.ok()) return s;
  }
  const std::size_t out_bytes = static_cast<std::size_t>(host.rows * host.out_row_stride) * 2;
  const std::size_t lse_bytes = static_cast<std::size_t>(host.rows * host.lse_row_stride) * 4;
  if (Status s = scratch_[5].reserve(out_bytes); !s.ok()) return s;
  if (Status s = scratch_[6].reserve(lse_bytes); !s.ok()) return s;
  // What the host poisoned must still be there where the kernel writes nothing.
  if (Status s = check(cudaMemcpy(scratch_[5].data(), host.out, out_bytes, cudaMemcpyHostToDevice),
                       "upload");
      !s.ok())
    return s;
  if (Status s = check(cudaMemcpy(scratch_[6].data(), host.lse, lse_bytes, cudaMemcpyHostToDevice),
                       "upload");
      !s.ok())
    return s;
  call.out = reinterpret_cast<std::uint16_t*>(scratch_[5].data());
  call.lse = reinterpret_cast<float*>(scratch_[6].data());
  call.stream = stream_;
  if (Status s = decoder.run(call); !s.ok()) return s;
  if (Status s = check(cudaStreamSynchronize(stream_), "running a gate's call"); !s.ok()) return s;
  if (Status s =
          check(cudaMemcpy(host.out, call.out, out_bytes, cudaMemcpyDeviceToHost), "download");
      !s.ok())
    return s;
  return check(cudaMemcpy(host.lse, call.lse, lse_bytes, cudaMemcpyDeviceToHost), "download");
}

// One graph of all calls of a sample: at least as many as there are sets, so that a replay goes
// once round the whole working set and finds none of it in the cache.
Expected<CudaDevice::Graph> CudaDevice::graph_of(Decoder& decoder, const TimedCalls& what) {
  const GraphKey key{&decoder, what.stream, what.point, what.batch};
  Graph& graph = graphs_[key];
  const int sets = mirrors_[static_cast<std::size_t>(what.stream)].inputs->sets(what.point);
  const int calls = std::max(what.calls, sets);
  if (graph.exec != nullptr && graph.calls == calls) return graph;
  if (graph.exec != nullptr) cudaGraphExecDestroy(graph.exec);
  graph = {nullptr, calls};
  if (Status s =
          check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
      !s.ok())
    return s.error();
  Status ran;
  for (int i = 0; i < calls && ran.ok(); ++i) ran = decoder.run(device_call(what, i));
  cudaGraph_t captured = nullptr;
  const Status ended = check(cudaStreamEndCapture(stream_, &captured), "end of capture");
  if (!ran.ok()) return ran.error();
  if (!ended.ok()) return ended.error();
  const Status made = check(cudaGraphInstantiate(&graph.exec, captured, 0), "graph instantiation");
  cudaGraphDestroy(captured);
  if (!made.ok()) return made.error();
  return graph;
}

Expected<double> CudaDevice::time_calls(Decoder& decoder, const TimedCalls& what) {
  if (execution_ == Execution::graph) {
    const auto graph = graph_of(decoder, what);
    if (!graph.ok()) return graph.error();
    if (Status s = check(cudaGraphLaunch(graph->exec, stream_), "graph launch"); !s.ok()) {
      return s.error();
    }
    const auto us = measure::time_graph_us(graph->exec, stream_, 1);
    if (!us.ok()) return us.error();
    return *us / graph->calls;
  }
  if (Status s = decoder.run(device_call(what, what.first_set)); !s.ok()) return s.error();
  if (Status s = timer_.start(stream_); !s.ok()) return s.error();
  for (int i = 1; i <= what.calls; ++i) {
    if (Status s = decoder.run(device_call(what, what.first_set + i)); !s.ok()) return s.error();
  }
  const auto us = timer_.stop_us(stream_);
  if (!us.ok()) return us.error();
  return *us / what.calls;
}

}  // namespace

Expected<std::unique_ptr<DecodeDevice>> make_cuda_device(Execution execution, int device) {
  auto timer = measure::EventTimer::create();
  if (!timer.ok()) return timer.error();
  auto made = std::make_unique<CudaDevice>(execution, device, std::move(*timer));
  if (Status s = made->open(); !s.ok()) return s.error();
  return std::unique_ptr<DecodeDevice>(std::move(made));
}

}  // namespace splitwave::experiment
