// Occupancy: how many CTAs of a kernel one SM holds, and what binds. Owns the arithmetic of the
// hardware's allocator (the same as NVIDIA's cuda_occupancy.h, against which tests/plan checks it).
// Pure: no driver, any device of the table. Called by the planner and by `splitwave occupancy`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "splitwave/device.h"
#include "splitwave/status.h"

namespace splitwave {

// What one launch of a kernel takes.
struct KernelResources {
  int threads = 0;                // of a CTA
  int registers = 0;              // per thread
  std::int64_t shared_bytes = 0;  // of a CTA, static + dynamic, without the driver's reserve
  int barriers = 0;               // named barriers of a CTA, 0 when not known
};

// One resource's own limit: how many CTAs it would let an SM hold.
struct OccupancyLimit {
  std::string resource;  // "registers", "shared memory", "threads", "CTAs per SM", "barriers"
  int ctas = 0;
};

struct Occupancy {
  int ctas_per_sm = 0;  // 0: the kernel cannot be launched on this device
  int warps_per_sm = 0;
  double occupancy = 0;                // warps_per_sm / the SM's warps
  std::vector<OccupancyLimit> limits;  // one a resource that bounds anything, in a fixed order
  std::vector<std::string> limiters;   // every resource whose limit is the least
};

// Refuses a CPU, and resources that no launch has (no threads, negative sizes).
[[nodiscard]] Expected<Occupancy> occupancy_of(const DeviceSpec& device,
                                               const KernelResources& kernel);

}  // namespace splitwave
