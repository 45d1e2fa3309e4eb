// The allocator's arithmetic, one function a resource.
#include "plan/occupancy.h"

#include <algorithm>
#include <limits>

namespace splitwave {
namespace {

constexpr int k_threads_per_warp = 32;
constexpr int k_threads_per_cta_max = 1024;      // CUDA C++ Programming Guide, every capability
constexpr int k_registers_per_thread_max = 256;  // of the allocator; nvcc gives at most 255
constexpr int k_sub_partitions = 4;              // of an SM, capability 7.x and later
constexpr int k_unbounded = std::numeric_limits<int>::max();

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Registers are given to warps, in units, from the register file of the warp's own sub-partition. A
// launch is also checked as if warps came in fours: 5 warps of 200 registers are charged for 8.
int register_limit(const DeviceSpec& device, const KernelResources& kernel, int warps) {
  if (kernel.registers == 0) return k_unbounded;
  if (kernel.registers > k_registers_per_thread_max) return 0;
  const std::int64_t per_warp =
      round_up(std::int64_t{kernel.registers} * k_threads_per_warp, device.register_unit_per_warp);
  if (per_warp * round_up(warps, k_sub_partitions) > device.registers_per_sm) return 0;
  const std::int64_t warps_per_partition = device.registers_per_sm / k_sub_partitions / per_warp;
  return static_cast<int>(warps_per_partition * k_sub_partitions / warps);
}

int shared_limit(const DeviceSpec& device, const KernelResources& kernel) {
  if (kernel.shared_bytes > device.shared_bytes_per_cta_max) return 0;
  const std::int64_t per_cta = round_up(kernel.shared_bytes + device.shared_bytes_reserved_per_cta,
                                        device.shared_unit_bytes);
  return per_cta == 0 ? k_unbounded : static_cast<int>(device.shared_bytes_per_sm / per_cta);
}

int thread_limit(const DeviceSpec& device, const KernelResources& kernel, int warps) {
  if (kernel.threads > k_threads_per_cta_max) return 0;
  return device.max_threads_per_sm / k_threads_per_warp / warps;
}

// From capability 9.0 on an SM has a fixed number of named barriers: two for each CTA that it can
// hold on the data-centre parts, one on the others.
int barrier_limit(const DeviceSpec& device, const KernelResources& kernel) {
  if (kernel.barriers == 0 || device.arch < 90) return k_unbounded;
  const bool has_two_per_cta = device.arch == 90 || device.arch == 100 || device.arch == 103;
  return device.max_ctas_per_sm * (has_two_per_cta ? 2 : 1) / kernel.barriers;
}

Status check(const DeviceSpec& device, const KernelResources& kernel) {
  if (device.arch == 0) {
    return bad_input("occupancy: device '" + device.name + "' is a CPU; occupancy is a GPU's");
  }
  if (kernel.threads < 1) {
    return bad_input("occupancy: threads=" + std::to_string(kernel.threads) + "; a CTA has 1.." +
                     std::to_string(k_threads_per_cta_max));
  }
  if (kernel.registers < 0) {
    return bad_input("occupancy: registers=" + std::to_string(kernel.registers) +
                     "; a thread has 0.." + std::to_string(k_registers_per_thread_max));
  }
  if (kernel.shared_bytes < 0) {
    return bad_input("occupancy: shared-bytes=" + std::to_string(kernel.shared_bytes) +
                     "; a CTA has 0.." + std::to_string(device.shared_bytes_per_cta_max) + " on " +
                     device.name);
  }
  if (kernel.barriers < 0) {
    return bad_input("occupancy: barriers=" + std::to_string(kernel.barriers) +
                     "; a CTA has 0..16 named barriers");
  }
  return {};
}

}  // namespace

Expected<Occupancy> occupancy_of(const DeviceSpec& device, const KernelResources& kernel) {
  const Status checked = check(device, kernel);
  if (!checked) return checked.error();
  const int warps = (kernel.threads + k_threads_per_warp - 1) / k_threads_per_warp;
  const std::vector<OccupancyLimit> all = {
      {"registers", register_limit(device, kernel, warps)},
      {"shared memory", shared_limit(device, kernel)},
      {"threads", thread_limit(device, kernel, warps)},
      {"CTAs per SM", device.max_ctas_per_sm},
      {"barriers", barrier_limit(device, kernel)},
  };
  Occupancy result;
  result.ctas_per_sm = k_unbounded;
  for (const OccupancyLimit& limit : all) {
    if (limit.ctas == k_unbounded) continue;
    result.limits.push_back(limit);
    result.ctas_per_sm = std::min(result.ctas_per_sm, limit.ctas);
  }
  for (const OccupancyLimit& limit : result.limits) {
    if (limit.ctas == result.ctas_per_sm) result.limiters.push_back(limit.resource);
  }
  result.warps_per_sm = result.ctas_per_sm * warps;
  const int warps_max = device.max_threads_per_sm / k_threads_per_warp;
  result.occupancy = static_cast<double>(result.warps_per_sm) / warps_max;
  return result;
}

}  // namespace splitwave
