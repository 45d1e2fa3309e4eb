// What the planner knows of a device. Owns DeviceSpec: plain numbers with their source, so that a
// plan can be made for a GPU that nobody here owns.
#pragma once

#include <cstdint>
#include <string>

namespace splitwave {

struct DeviceSpec {
  std::string name;     // the table's key, e.g. "rtx-pro-6000"
  std::string product;  // the vendor's name
  int arch = 0;         // compute capability * 10: 80, 86, 89, 90, 100, 120, 121; 0 for a CPU
  int sm_count = 0;     // CPU: worker threads
  int max_threads_per_sm = 0;
  int max_ctas_per_sm = 0;
  int registers_per_sm = 65536;
  int register_unit_per_warp = 256;  // allocation granularity
  int shared_bytes_per_sm = 0;       // what CTAs share, the reserved part included
  int shared_bytes_per_cta_max = 0;  // opt-in limit of one CTA
  int shared_bytes_reserved_per_cta = 1024;
  int shared_unit_bytes = 128;
  std::int64_t l2_bytes = 0;
  double dram_gbps = 0;     // datasheet bandwidth, 1e9 bytes a second
  double bf16_tflops = 0;   // dense
  double sm_clock_ghz = 0;  // boost
  std::string source;       // where the numbers come from
};

}  // namespace splitwave
