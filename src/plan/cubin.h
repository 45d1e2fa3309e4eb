// What a compiled kernel takes, read from its cubin. Owns a bounded reader of the few ELF parts
// that say it (section table, symbols, .nv.info attributes, .nv.shared sizes); needs no CUDA tool
// and no driver. Any malformed file is refused, never read out of bounds. Called by `splitwave
// occupancy`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "splitwave/status.h"

namespace splitwave {

struct CubinKernel {
  std::string name;     // mangled
  int registers = 0;    // per thread
  int threads_max = 0;  // of __launch_bounds__ or __cluster_dims__; 0: not declared
  int barriers = 0;     // named barriers
  std::int64_t static_shared_bytes = 0;  // without the driver's reserve
};

struct Cubin {
  int arch = 0;                      // 90 for sm_90 and sm_90a
  std::vector<CubinKernel> kernels;  // by name; at least one
};

[[nodiscard]] Expected<Cubin> parse_cubin(std::span<const std::uint8_t> bytes);

}  // namespace splitwave
