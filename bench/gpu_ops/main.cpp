// gpu_ops: checks the operators' CUDA kernels against the host references and times them on the GPU
// at hand. Needs CUDA and a compiler only. usage: gpu_ops OUT.json [quick|full] Exit status 0:
// everything passed; 1: a case failed; 3: no device, or a CUDA error.
#include <algorithm>
#include <fstream>
#include <random>

#include "gpu_bench.h"
#include "measure/fingerprint.h"

namespace splitwave::gpu_ops {

void fill_pool(std::uint8_t* pool, std::size_t bytes, std::size_t unit_bytes,
               const std::vector<std::uint8_t>& unit) {
  check(cudaMemcpy(pool, unit.data(), std::min(bytes, unit_bytes), cudaMemcpyHostToDevice), "pool");
  for (std::size_t done = unit_bytes; done < bytes; done += unit_bytes) {
    check(
        cudaMemcpy(pool + done, pool, std::min(unit_bytes, bytes - done), cudaMemcpyDeviceToDevice),
        "pool");
  }
}

Timing time_calls(cudaStream_t stream, int count, const std::function<Status(int)>& calls) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < count; ++i) check(calls(i));
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
  std::vector<double> us;
  for (int round = 0; round < 12; ++round) {
    const Expected<double> one = measure::time_graph_us(exec, stream, 2);
    if (!one) check(Status(one.error()));
    if (round >= 2) us.push_back(*one / count);
  }
  check(cudaGraphExecDestroy(exec), "destroy");
  check(cudaGraphDestroy(graph), "destroy");
  std::sort(us.begin(), us.end());
  return {us[us.size() / 2], us.front(), us[us.size() * 9 / 10]};
}

void report(Context& context, const char* op, const std::string& shape, const Timing& timing,
            double bytes) {
  const double floor_us = bytes / context.copy_gbps / 1e3;
  std::printf("%-12s %-46s %9.2f us  min %9.2f  floor %8.2f  %5.1f %% of copy\n", op, shape.c_str(),
              timing.us_median, timing.us_min, floor_us, 100 * floor_us / timing.us_median);
  std::fflush(stdout);
  context.json->begin_object()
      .field("op", op)
      .field("shape", shape.c_str())
      .field("us_median", timing.us_median)
      .field("us_min", timing.us_min)
      .field("us_p90", timing.us_p90)
      .field("bytes", bytes)
      .field("floor_us", floor_us)
      .field("of_copy", floor_us / timing.us_median)
      .end_object();
}

namespace {

// A device-to-device copy of 2 GiB: the ceiling that every floor is taken from.
double measure_copy_gbps(cudaStream_t stream) {
  constexpr std::size_t bytes = std::size_t{2} << 30;
  const Device<std::uint8_t> from(bytes);
  const Device<std::uint8_t> to(bytes);
  check(cudaMemset(from.get(), 0x5A, bytes), "memset");
  const Timing timing = time_calls(stream, 2, [&](int) {
    launch_copy(from.get(), to.get(), bytes, stream);
    return Status{};
  });
  return 2.0 * bytes / timing.us_median / 1e3;
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: gpu_ops OUT.json [quick|full]\n");
    return 2;
  }
  const bool full = argc > 2 && std::string(argv[2]) == "full";
  Context context;
  check(cudaStreamCreate(&context.stream), "cudaStreamCreate");
  JsonWriter json;
  context.json = &json;
  context.copy_gbps = measure_copy_gbps(context.stream);
  std::printf("copy ceiling %.0f GB/s (read + written)\n", context.copy_gbps);
  json.begin_object().field("tool", "gpu_ops").field("copy_gbps", context.copy_gbps);
  json.key("fingerprint");
  write_json(json, measure::collect_fingerprint());
  json.key("points").begin_array();
  run_indexer_bench(context);
  run_topk_bench(context);
  run_writes_bench(context);
  json.end_array();
  json.key("contract").begin_object();
  run_contract(context, full);
  run_stress(context);
  json.end_object();
  json.field("failed", context.failed);
  json.end_object();
  std::ofstream(argv[1]) << json.str();
  std::printf("failed %d\n", context.failed);
  return context.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace splitwave::gpu_ops

int main(int argc, char** argv) { return splitwave::gpu_ops::run(argc, argv); }
