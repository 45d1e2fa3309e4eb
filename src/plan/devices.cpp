// Product numbers by hand, from the vendor's documents named in each entry; per-SM limits by
// capability, from the CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute
// Capability", which cuda_occupancy.h of the same toolkit repeats (tests/plan compares).
#include "plan/devices.h"

#include <string>
#include <vector>

#include "base/nearest_name.h"

namespace splitwave {
namespace {

constexpr int k_kib = 1024;
constexpr std::int64_t k_mib = 1024 * 1024;

struct Product {
  const char* name;
  const char* product;
  int arch;
  int sm_count;
  std::int64_t l2_bytes;
  double dram_gbps;
  double bf16_tflops;  // dense, fp32 accumulation
  double sm_clock_ghz;
  const char* source;
};

constexpr Product k_products[] = {
    {"rtx-pro-6000", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 120, 188, 128 * k_mib,
     1792, 503.8, 2.617,
     "NVIDIA RTX PRO 6000 Blackwell datasheet (24,064 cores = 188 SMs, 96 GB GDDR7, 1,792 GB/s); "
     "NVIDIA RTX Blackwell PRO GPU architecture white paper (L2, boost clock, FP16 tensor rate "
     "with "
     "FP32 accumulation)"},
    {"rtx-5090", "NVIDIA GeForce RTX 5090", 120, 170, 96 * k_mib, 1792, 209.5, 2.407,
     "NVIDIA RTX Blackwell GPU architecture white paper, GeForce RTX 5090 table (21,760 cores = "
     "170 "
     "SMs; FP32 accumulation runs at half the FP16 rate on GeForce)"},
    {"gb10", "NVIDIA GB10 Grace Blackwell Superchip (DGX Spark)", 121, 48, 24 * k_mib, 273, 125,
     2.418,
     "NVIDIA DGX Spark hardware overview (6,144 cores = 48 SMs, 273 GB/s unified LPDDR5X, 1 PFLOP "
     "sparse FP4, of which an eighth is dense BF16); L2 and clock as cudaGetDeviceProperties "
     "reports"},
    {"h200", "NVIDIA H200 SXM", 90, 132, 60 * k_mib, 4800, 989.4, 1.98,
     "NVIDIA H200 datasheet (141 GB HBM3e, 4.8 TB/s, 989 TFLOPS dense BF16); SMs, L2 and clock "
     "read "
     "from one H200 (driver 580.159.04)"},
    {"h100", "NVIDIA H100 SXM5 80GB", 90, 132, 50 * k_mib, 3352, 989.4, 1.83,
     "NVIDIA H100 Tensor Core GPU architecture white paper v1.04, H100 SXM5 column"},
    {"b200", "NVIDIA B200 (HGX)", 100, 148, 126 * k_mib, 7700, 2250, 1.965,
     "NVIDIA HGX B200 datasheet (180 GB HBM3e, 2.25 PFLOPS dense BF16, 62 TB/s for eight GPUs); "
     "Chips and Cheese, 'Nvidia's B200' (148 SMs, L2, clock)"},
    {"a100", "NVIDIA A100 SXM4 80GB", 80, 108, 40 * k_mib, 2039, 311.9, 1.41,
     "NVIDIA A100 80GB datasheet (2,039 GB/s, 312 TFLOPS dense BF16); NVIDIA A100 Tensor Core GPU "
     "architecture white paper v1.0 (108 SMs, 40 MB L2, boost clock)"},
    {"l40s", "NVIDIA L40S", 89, 142, 96 * k_mib, 864, 362.1, 2.52,
     "NVIDIA L40S datasheet (18,176 cores = 142 SMs, 48 GB GDDR6, 864 GB/s, 362 TFLOPS dense "
     "BF16); "
     "NVIDIA Ada GPU architecture white paper v2.1 (AD102 L2, boost clock)"},
};

std::vector<DeviceSpec> make_table() {
  std::vector<DeviceSpec> table;
  for (const Product& product : k_products) {
    DeviceSpec device = capability_limits(product.arch);
    device.name = product.name;
    device.product = product.product;
    device.sm_count = product.sm_count;
    device.l2_bytes = product.l2_bytes;
    device.dram_gbps = product.dram_gbps;
    device.bf16_tflops = product.bf16_tflops;
    device.sm_clock_ghz = product.sm_clock_ghz;
    device.source = product.source;
    table.push_back(device);
  }
  return table;
}

}  // namespace

DeviceSpec capability_limits(int arch) {
  DeviceSpec device;
  int shared_kib_per_sm = 0;
  switch (arch) {
    case 80:
      device.max_threads_per_sm = 2048;
      device.max_ctas_per_sm = 32;
      shared_kib_per_sm = 164;
      break;
    case 86:
      device.max_threads_per_sm = 1536;
      device.max_ctas_per_sm = 16;
      shared_kib_per_sm = 100;
      break;
    case 89:
    case 120:
    case 121:
      device.max_threads_per_sm = 1536;
      device.max_ctas_per_sm = 24;
      shared_kib_per_sm = 100;
      break;
    case 90:
    case 100:
      device.max_threads_per_sm = 2048;
      device.max_ctas_per_sm = 32;
      shared_kib_per_sm = 228;
      break;
    default:
      return device;
  }
  device.arch = arch;
  device.shared_bytes_per_sm = shared_kib_per_sm * k_kib;
  // One CTA may take all but the driver's reserve.
  device.shared_bytes_per_cta_max =
      device.shared_bytes_per_sm - device.shared_bytes_reserved_per_cta;
  return device;
}

std::span<const DeviceSpec> known_devices() {
  static const std::vector<DeviceSpec> table = make_table();
  return table;
}

Expected<DeviceSpec> find_device(std::string_view name) {
  std::vector<std::string_view> names;
  for (const DeviceSpec& device : known_devices()) {
    if (device.name == name) return device;
    names.push_back(device.name);
  }
  return bad_input("device='" + std::string(name) + "' is not in the device table" +
                   did_you_mean(name, names) + "; what works: " + join_names(names));
}

}  // namespace splitwave
