// Driver queries.
#include "runtime/cuda_device.h"

#include <vector>

#include "plan/devices.h"
#include "runtime/backend.h"

namespace splitwave {
namespace {

int attribute(cudaDeviceAttr which, int ordinal) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, which, ordinal) == cudaSuccess ? value : 0;
}

// "NVIDIA H200" is the table's "NVIDIA H200 SXM": the driver's name is a prefix up to a space.
bool is_product(const std::string& driver_name, const std::string& product) {
  return product == driver_name || product.starts_with(driver_name + " ");
}

// Dense bf16 FLOP a clock and SM, for a product that the table does not know.
double flop_per_clock(int arch) {
  switch (arch) {
    case 80:
      return 2048;
    case 90:
      return 4096;
    case 100:
      return 8192;
    default:
      return 1024;
  }
}

}  // namespace

Status cuda_status(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return {};
  return environment_error(std::string(what) + ": " + cudaGetErrorName(code) + ": " +
                           cudaGetErrorString(code));
}

Expected<DeviceSpec> query_cuda_device(int ordinal) {
  int count = 0;
  if (const Status s = cuda_status(cudaGetDeviceCount(&count), "cudaGetDeviceCount"); !s) {
    return s.error();
  }
  if (count == 0) return environment_error("no CUDA device is visible; the cpu backend needs none");
  if (ordinal < 0 || ordinal >= count) {
    return bad_input("device = " + std::to_string(ordinal) + ": 0 to " + std::to_string(count - 1) +
                     " exist");
  }
  cudaDeviceProp properties{};
  if (const Status s =
          cuda_status(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
      !s) {
    return s.error();
  }
  const int arch = properties.major * 10 + properties.minor;
  DeviceSpec device = capability_limits(arch);
  if (device.arch == 0) {
    return environment_error(std::string(properties.name) + " is sm_" + std::to_string(arch) +
                             ", which this build has no variant for");
  }
  device.name = device.product = properties.name;
  const double clock_ghz = attribute(cudaDevAttrClockRate, ordinal) * 1e-6;
  device.sm_clock_ghz = clock_ghz;
  // Two transfers a clock over a bus of so many bits.
  device.dram_gbps = 2.0 * attribute(cudaDevAttrMemoryClockRate, ordinal) * 1e3 *
                     attribute(cudaDevAttrGlobalMemoryBusWidth, ordinal) / 8 * 1e-9;
  device.bf16_tflops = properties.multiProcessorCount * clock_ghz * flop_per_clock(arch) * 1e-3;
  device.source = "cudaGetDeviceProperties";
  for (const DeviceSpec& known : known_devices()) {
    if (known.arch == arch && is_product(properties.name, known.product)) {
      device = known;
      device.source += "; SMs, L2 and limits from the driver";
    }
  }
  device.product = properties.name;
  device.sm_count = properties.multiProcessorCount;
  device.max_threads_per_sm = properties.maxThreadsPerMultiProcessor;
  device.max_ctas_per_sm = properties.maxBlocksPerMultiProcessor;
  device.registers_per_sm = properties.regsPerMultiprocessor;
  device.shared_bytes_per_sm = static_cast<int>(properties.sharedMemPerMultiprocessor);
  device.shared_bytes_per_cta_max = static_cast<int>(properties.sharedMemPerBlockOptin);
  device.shared_bytes_reserved_per_cta = static_cast<int>(properties.reservedSharedMemPerBlock);
  device.l2_bytes = properties.l2CacheSize;
  return device;
}

CurrentDevice::CurrentDevice(int ordinal) {
  if (cudaGetDevice(&previous_) == cudaSuccess && previous_ != ordinal) {
    changed_ = cudaSetDevice(ordinal) == cudaSuccess;
  }
}
CurrentDevice::~CurrentDevice() {
  if (changed_) cudaSetDevice(previous_);
}

RelaxedCapture::RelaxedCapture() {
  changed_ = cudaThreadExchangeStreamCaptureMode(&mode_) == cudaSuccess;
}
RelaxedCapture::~RelaxedCapture() {
  if (changed_) cudaThreadExchangeStreamCaptureMode(&mode_);
}

std::vector<DeviceSpec> cuda_devices() {
  std::vector<DeviceSpec> devices;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return devices;
  for (int i = 0; i < count; ++i) {
    if (Expected<DeviceSpec> device = query_cuda_device(i)) devices.push_back(*device);
  }
  return devices;
}

}  // namespace splitwave
