// gpu_check [--quick] [--no-bench] [--no-tests] [--chosen] [--sanitize] [--shape NAME] [--out
// FILE] [--note KEY=VALUE]: the GPU tests and benchmark, one JSON record. --chosen: time what the
// planner chooses only. --sanitize: small calls of every variant, for compute-sanitizer. --note: a
// field of the record. Exit status: 0 all passed, 1 a test failed.
#include <cstdlib>
#include <fstream>

#include "gpu_test.h"
#include "runtime/cuda_device.h"

namespace splitwave::gpu {

DeviceProblem::DeviceProblem(const SyntheticOptions& options)
    : host_(options), call_(host_.call()) {
  const CallBuffers b = host_.buffers();
  const auto upload = [this](std::span<std::uint8_t> from) -> std::uint8_t* {
    if (from.empty()) return nullptr;
    memory_.emplace_back(from.size());
    std::uint8_t* to = memory_.back().as<std::uint8_t>();
    GPU_REQUIRE(cudaMemcpy(to, from.data(), from.size(), cudaMemcpyHostToDevice));
    return to;
  };
  call_.q = reinterpret_cast<std::uint16_t*>(upload(b.q));
  call_.main_cache.base = upload(b.main_cache);
  call_.extra_cache.base = upload(b.extra_cache);
  call_.main_list.slots = reinterpret_cast<std::int32_t*>(upload(b.main_slots));
  call_.extra_list.slots = reinterpret_cast<std::int32_t*>(upload(b.extra_slots));
  call_.main_list.lengths = reinterpret_cast<std::int32_t*>(upload(b.main_lengths));
  call_.extra_list.lengths = reinterpret_cast<std::int32_t*>(upload(b.extra_lengths));
  call_.sink = reinterpret_cast<float*>(upload(b.sink));
  call_.out = reinterpret_cast<std::uint16_t*>(upload(b.out));
  call_.lse = reinterpret_cast<float*>(upload(b.lse));
}

void DeviceProblem::poison_outputs() {
  host_.poison_outputs();
  const CallBuffers b = host_.buffers();
  if (!b.out.empty()) {
    GPU_REQUIRE(cudaMemcpy(call_.out, b.out.data(), b.out.size(), cudaMemcpyHostToDevice));
  }
  if (!b.lse.empty()) {
    GPU_REQUIRE(cudaMemcpy(call_.lse, b.lse.data(), b.lse.size(), cudaMemcpyHostToDevice));
  }
}

void DeviceProblem::download() {
  const CallBuffers b = host_.buffers();
  if (!b.out.empty()) {
    GPU_REQUIRE(cudaMemcpy(b.out.data(), call_.out, b.out.size(), cudaMemcpyDeviceToHost));
  }
  if (!b.lse.empty()) {
    GPU_REQUIRE(cudaMemcpy(b.lse.data(), call_.lse, b.lse.size(), cudaMemcpyDeviceToHost));
  }
}

std::vector<std::uint8_t> DeviceProblem::output() {
  const CallBuffers b = host_.buffers();
  std::vector<std::uint8_t> all(b.out.begin(), b.out.end());
  all.insert(all.end(), b.lse.begin(), b.lse.end());
  return all;
}

std::unique_ptr<CudaBackend> make_backend(const ProblemSpec& spec, const std::string& variant,
                                          PlanOverrides overrides) {
  if (!variant.empty()) overrides.variant = variant;
  auto made = CudaBackend::create(spec, overrides, 0);
  if (!made) {
    std::printf("backend %s: %s\n", variant.c_str(), made.error().message.c_str());
    std::exit(3);
  }
  return std::move(*made);
}

std::vector<VariantTraits> variants_here(KvFormat format) {
  std::vector<VariantTraits> here;
  for (const VariantListing& listing : cuda_variant_listings()) {
    if (listing.runnable && listing.traits.format == format &&
        listing.traits.operands == OperandType::bf16) {
      here.push_back(listing.traits);
    }
  }
  return here;
}

void run_and_wait(CudaBackend& backend, const DecodeCall& call) {
  const Status status = backend.run(call);
  if (!status) {
    std::printf("run: %s\n", status.error().message.c_str());
    std::exit(3);
  }
  GPU_REQUIRE(cudaDeviceSynchronize());
}

}  // namespace splitwave::gpu

int main(int argc, char** argv) {
  using namespace splitwave;
  using namespace splitwave::gpu;
  bool quick = false, bench = true, tests = true, sanitize = false, chosen = false;
  std::string out, shape;
  std::vector<std::string> notes;  // KEY=VALUE of the script's own steps
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "--quick")
      quick = true;
    else if (a == "--no-bench")
      bench = false;
    else if (a == "--no-tests")
      tests = false;
    else if (a == "--sanitize")
      sanitize = true;
    else if (a == "--chosen")
      chosen = true;
    else if (a == "--shape" && i + 1 < argc)
      shape = argv[++i];
    else if (a == "--out" && i + 1 < argc)
      out = argv[++i];
    else if (a == "--note" && i + 1 < argc)
      notes.emplace_back(argv[++i]);
    else
      return std::printf(
                 "usage: gpu_check [--quick] [--no-bench] [--no-tests] [--chosen] [--sanitize]"
                 " [--shape NAME] [--out FILE] [--note KEY=VALUE]\n"),
             2;
  }
  const Expected<DeviceSpec> device = query_cuda_device(0);
  if (!device) return std::printf("%s\n", device.error().message.c_str()), 3;
  if (sanitize) return run_small_set(), 0;
  Report report;
  if (tests) {
    check_dequantisation(report);
    check_exactness(report, quick);
    check_contract(report, quick);
    check_accuracy(report, quick);
  }
  const char* commit = std::getenv("SPLITWAVE_COMMIT");
  JsonWriter json;
  json.begin_object();
  json.field("schema", "splitwave-gpu-check 1").field("commit", commit ? commit : "unknown");
  json.field("device", device->product).field("arch", device->arch);
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  json.field("sms", device->sm_count).field("driver", driver).field("cuda_runtime", runtime);
  json.field("tests_run", tests).field("cases", report.cases);
  json.field("failed", static_cast<int>(report.failures.size()));
  json.field("worst_rel_l2", report.worst_rel_l2);
  for (const std::string& note : notes) {
    const std::size_t at = note.find('=');
    if (at != std::string::npos) json.field(note.substr(0, at).c_str(), note.substr(at + 1));
  }
  json.key("families").begin_array();
  for (const std::string& f : report.families) json.value(f);
  json.end_array().key("failures").begin_array();
  for (std::size_t i = 0; i < report.failures.size() && i < 50; ++i) json.value(report.failures[i]);
  json.end_array();
  if (bench) run_bench(json, quick, chosen, shape);
  json.end_object();
  if (!out.empty()) std::ofstream(out) << json.str();
  std::printf("gpu_check: %d cases, %d failed, worst rel l2 %.2e\n", report.cases,
              static_cast<int>(report.failures.size()), report.worst_rel_l2);
  return report.failures.empty() ? 0 : 1;
}
