// Clocks, power and temperature of NVIDIA GPUs. Owns the dlopen of libnvidia-ml and a handful of
// its prototypes (the toolkit ships no nvml.h): nothing links to the driver, and a machine without
// it gets a clear answer instead of a failure to start. Reads only, never sets a clock or a limit.
// Called by the fingerprint, the experiment runner once a round, and the sampler of live arms.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "splitwave/status.h"

namespace splitwave::measure {

// What the driver answered; a value that this device or driver does not report is empty.
struct GpuReading {
  std::optional<double> sm_clock_mhz;
  std::optional<double> memory_clock_mhz;
  std::optional<double> power_w;
  std::optional<double> temperature_c;
  std::optional<double> sm_busy_percent;          // share of time with a kernel running
  std::optional<double> memory_busy_percent;      // share of time with the memory controller busy
  std::optional<std::uint64_t> throttle_reasons;  // NVML's bit mask; 1 is idle
};

struct GpuIdentity {
  std::string name;
  std::string uuid;
  std::optional<double> sm_clock_mhz_max;
  std::optional<double> power_cap_w;  // the limit now enforced
  std::optional<bool> ecc;
};

class Nvml {
 public:
  // environment error when the library or an entry point is missing, or the driver does not answer.
  [[nodiscard]] static Expected<Nvml> open(const std::string& library = "libnvidia-ml.so.1");

  Nvml(Nvml&&) noexcept;
  Nvml& operator=(Nvml&&) noexcept;
  ~Nvml();

  [[nodiscard]] int device_count() const;
  [[nodiscard]] const std::string& driver_version() const;
  [[nodiscard]] Expected<GpuIdentity> identity(int device) const;
  [[nodiscard]] Expected<GpuReading> read(int device) const;

  // The NVML index of the device that CUDA knows by this PCI bus id ("0000:1B:00.0"):
  // CUDA_VISIBLE_DEVICES renumbers CUDA's devices and not NVML's.
  [[nodiscard]] Expected<int> device_of_pci(const std::string& bus_id) const;

 private:
  struct Library;
  explicit Nvml(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
};

}  // namespace splitwave::measure
