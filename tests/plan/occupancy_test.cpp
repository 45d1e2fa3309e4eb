// Occupancy against known results and, where the CUDA toolkit is present, against NVIDIA's own
// calculator for random kernels.
#include "plan/occupancy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "plan/devices.h"

#ifdef SPLITWAVE_HAVE_CUDA_OCCUPANCY
#include <cuda_occupancy.h>
#endif

namespace splitwave {
namespace {

DeviceSpec of_capability(int arch) {
  DeviceSpec device = capability_limits(arch);
  device.name = "sm_" + std::to_string(arch);
  device.sm_count = 1;
  return device;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : "+") + name;
  return text;
}

struct KnownKernel {
  int threads;
  int registers;
  int shared_bytes;
  int ctas_sm90;
  int ctas_sm120;
  const char* limiters_sm120;
};

// Results of cuda_occupancy.h (CUDA 13.0), 64K registers an SM.
constexpr KnownKernel k_known[] = {
    {288, 168, 90112, 1, 1, "registers+shared memory"},
    {288, 224, 90112, 0, 0, "registers"},
    {256, 128, 49000, 2, 2, "registers+shared memory"},
    {256, 168, 49000, 1, 1, "registers"},
    {192, 168, 49000, 2, 2, "registers+shared memory"},
    {160, 200, 48000, 1, 1, "registers"},
    {128, 255, 49000, 2, 2, "registers+shared memory"},
    {128, 168, 49000, 3, 2, "shared memory"},
    {128, 128, 33000, 4, 3, "shared memory"},
    {256, 96, 33000, 2, 2, "registers"},
    {512, 128, 101376, 1, 1, "registers+shared memory"},
    {384, 168, 227000, 1, 0, "shared memory"},
};

TEST(Occupancy, GivesTheKnownResultsOnHopperAndConsumerBlackwell) {
  for (const KnownKernel& k : k_known) {
    const std::string what = std::to_string(k.threads) + " threads, " +
                             std::to_string(k.registers) + " registers, " +
                             std::to_string(k.shared_bytes) + " bytes";
    const KernelResources kernel{k.threads, k.registers, k.shared_bytes};
    EXPECT_EQ(occupancy_of(of_capability(90), kernel)->ctas_per_sm, k.ctas_sm90) << what;
    EXPECT_EQ(occupancy_of(of_capability(100), kernel)->ctas_per_sm, k.ctas_sm90) << what;
    const Occupancy consumer = *occupancy_of(of_capability(120), kernel);
    EXPECT_EQ(consumer.ctas_per_sm, k.ctas_sm120) << what;
    EXPECT_EQ(joined(consumer.limiters), k.limiters_sm120) << what;
  }
}

TEST(Occupancy, NamesSharedMemoryAsWhatBindsTheSourcesKernel) {
  const Occupancy o = *occupancy_of(find_device("rtx-pro-6000").value(), {128, 168, 81920});
  EXPECT_EQ(o.ctas_per_sm, 1);
  EXPECT_EQ(o.warps_per_sm, 4);
  EXPECT_NEAR(o.occupancy, 0.0833, 1e-4);
  EXPECT_EQ(joined(o.limiters), "shared memory");
  ASSERT_FALSE(o.limits.empty());
  EXPECT_EQ(o.limits.front().resource, "registers");
  EXPECT_EQ(o.limits.front().ctas, 3) << "by registers three CTAs fit";
}

TEST(Occupancy, NamesThreadsAndTheCtaLimitWhereTheyBind) {
  EXPECT_EQ(joined(occupancy_of(of_capability(120), {1024, 32, 0})->limiters), "threads");
  EXPECT_EQ(joined(occupancy_of(of_capability(120), {32, 16, 0})->limiters), "CTAs per SM");
  EXPECT_EQ(occupancy_of(of_capability(120), {1025, 32, 0})->ctas_per_sm, 0);
  EXPECT_EQ(occupancy_of(of_capability(90), {128, 257, 0})->ctas_per_sm, 0);
}

TEST(Occupancy, NamesBarriersFromHopperOn) {
  EXPECT_EQ(joined(occupancy_of(of_capability(120), {128, 64, 0, 16})->limiters), "barriers");
  EXPECT_EQ(occupancy_of(of_capability(120), {128, 64, 0, 16})->ctas_per_sm, 1);
  EXPECT_EQ(occupancy_of(of_capability(90), {128, 64, 0, 16})->ctas_per_sm, 4);
  EXPECT_EQ(joined(occupancy_of(of_capability(89), {128, 64, 0, 16})->limiters), "registers");
}

TEST(Occupancy, RefusesACpuAndSizesThatNoLaunchHas) {
  DeviceSpec cpu;
  cpu.name = "cpu";
  EXPECT_NE(occupancy_of(cpu, {128, 168, 0}).error().message.find("is a CPU"), std::string::npos);
  const DeviceSpec device = of_capability(90);
  EXPECT_NE(occupancy_of(device, {0, 168, 0}).error().message.find("threads=0"), std::string::npos);
  EXPECT_FALSE(occupancy_of(device, {128, -1, 0}).ok());
  EXPECT_FALSE(occupancy_of(device, {128, 1, -1}).ok());
  EXPECT_FALSE(occupancy_of(device, {128, 1, 0, -1}).ok());
}

#ifdef SPLITWAVE_HAVE_CUDA_OCCUPANCY

cudaOccDeviceProp nvidia_device(const DeviceSpec& device) {
  cudaOccDeviceProp p;
  p.computeMajor = device.arch / 10;
  p.computeMinor = device.arch % 10;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsPerMultiprocessor = device.max_threads_per_sm;
  p.regsPerBlock = device.registers_per_sm;
  p.regsPerMultiprocessor = device.registers_per_sm;
  p.warpSize = 32;
  p.sharedMemPerBlock = 48 * 1024;
  p.sharedMemPerMultiprocessor = static_cast<std::size_t>(device.shared_bytes_per_sm);
  p.numSms = device.sm_count;
  p.sharedMemPerBlockOptin = static_cast<std::size_t>(device.shared_bytes_per_cta_max);
  p.reservedSharedMemPerBlock = static_cast<std::size_t>(device.shared_bytes_reserved_per_cta);
  return p;
}

// From the limits themselves: the header's own flags keep what bound before barriers were counted.
std::string nvidia_limiters(const cudaOccResult& result) {
  const std::pair<const char*, int> limits[] = {{"registers", result.blockLimitRegs},
                                                {"shared memory", result.blockLimitSharedMem},
                                                {"threads", result.blockLimitWarps},
                                                {"CTAs per SM", result.blockLimitBlocks},
                                                {"barriers", result.blockLimitBarriers}};
  std::vector<std::string> names;
  for (const auto& [name, ctas] : limits) {
    if (ctas == result.activeBlocksPerMultiprocessor) names.emplace_back(name);
  }
  return joined(names);
}

// A kernel near the edges where limits change as often as anywhere.
KernelResources random_kernel(const DeviceSpec& device, std::mt19937& random) {
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  KernelResources kernel;
  kernel.threads = pick(0, 3) == 0 ? pick(1, 1056) : 32 * pick(1, 33);
  kernel.registers = pick(1, 260);
  const int per_cta = device.shared_bytes_per_sm / pick(1, 8);
  const int edge = per_cta - 1024 + 128 * pick(-2, 2) + pick(-1, 1);
  kernel.shared_bytes =
      pick(0, 1) == 0 ? pick(0, device.shared_bytes_per_cta_max + 4096) : std::max(0, edge);
  kernel.barriers = pick(0, 1) == 0 ? 0 : pick(1, 16);
  return kernel;
}

TEST(Occupancy, AgreesWithCudaOccupancyOnRandomKernels) {
  constexpr int k_kernels = 4000;
  for (const int arch : {80, 86, 89, 90, 100, 120, 121}) {
    const DeviceSpec device = of_capability(arch);
    std::mt19937 random(static_cast<unsigned>(arch));
    int launchable = 0;
    for (int i = 0; i < k_kernels; ++i) {
      const KernelResources kernel = random_kernel(device, random);
      const cudaOccDeviceProp properties = nvidia_device(device);
      cudaOccFuncAttributes attributes;
      attributes.maxThreadsPerBlock = 1024;
      attributes.numRegs = kernel.registers;
      attributes.sharedSizeBytes = 0;
      attributes.partitionedGCConfig = PARTITIONED_GC_OFF;
      attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
      attributes.maxDynamicSharedSizeBytes = static_cast<std::size_t>(kernel.shared_bytes);
      attributes.numBlockBarriers = kernel.barriers;
      const cudaOccDeviceState state;
      cudaOccResult expected;
      ASSERT_EQ(cudaOccMaxActiveBlocksPerMultiprocessor(
                    &expected, &properties, &attributes, &state, kernel.threads,
                    static_cast<std::size_t>(kernel.shared_bytes)),
                CUDA_OCC_SUCCESS);
      const Occupancy ours = *occupancy_of(device, kernel);
      const std::string what = device.name + ": " + std::to_string(kernel.threads) + " threads, " +
                               std::to_string(kernel.registers) + " registers, " +
                               std::to_string(kernel.shared_bytes) + " bytes, " +
                               std::to_string(kernel.barriers) + " barriers";
      ASSERT_EQ(ours.ctas_per_sm, expected.activeBlocksPerMultiprocessor) << what;
      ASSERT_EQ(joined(ours.limiters), nvidia_limiters(expected)) << what;
      launchable += ours.ctas_per_sm > 0 ? 1 : 0;
    }
    EXPECT_GE(launchable, 500) << device.name << ": too few kernels that can be launched at all";
  }
}

#else

TEST(Occupancy, AgreesWithCudaOccupancyOnRandomKernels) {
  GTEST_SKIP() << "cuda_occupancy.h was not found when this was configured";
}

#endif

}  // namespace
}  // namespace splitwave
