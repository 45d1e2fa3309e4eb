// What was measured on. Owns Fingerprint and its JSON: the machine, the build and the GPUs, as far
// as the system tells; what it does not tell is empty (null in JSON), never guessed. Holds nothing
// that names a person or a network. Called by the experiment runner (into result.json), the bench
// and `doctor`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "measure/build_info.h"
#include "measure/nvml.h"

namespace splitwave {
class JsonWriter;
}

namespace splitwave::measure {

struct HostFingerprint {
  std::string cpu_model;         // "" when /proc/cpuinfo has none
  std::vector<std::string> isa;  // those of k_isa_of_interest that the CPU reports
  bool is_virtual = false;       // a hypervisor is present: steal time and hidden clocks
  int cpus_online = 0;
  int cpus_usable = 0;              // in this process's affinity mask
  std::optional<double> cpu_quota;  // CPUs that the cgroup grants, if it limits them
  std::string governor;             // of CPU 0; "" when the kernel shows none
  std::optional<double> cpu_mhz;    // of CPU 0, now
  std::optional<double> load_average_1m;
  std::string kernel;
  std::optional<std::int64_t> memory_bytes;
  std::optional<std::int64_t> memory_available_bytes;
};

struct GpuFingerprint {
  GpuIdentity identity;
  GpuReading reading;
};

struct Fingerprint {
  HostFingerprint host;
  BuildInfo build{};
  std::string gpu_driver;
  std::vector<GpuFingerprint> gpus;
  std::string gpu_absent;  // why gpus is empty, in words; "" when it is not
};

// root is "/" except in tests, which plant a proc and a sys tree elsewhere.
[[nodiscard]] HostFingerprint read_host(const std::string& root = "/");

// Everything, now. Takes a few milliseconds; never fails.
[[nodiscard]] Fingerprint collect_fingerprint();

// One object: {"host": {...}, "build": {...}, "gpu_driver": ..., "gpus": [...], "gpu_absent": ...}.
void write_json(JsonWriter& json, const Fingerprint& fingerprint);
void write_json(JsonWriter& json, const GpuReading& reading);

}  // namespace splitwave::measure
