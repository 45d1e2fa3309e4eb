// Reads /proc, /sys, the affinity mask and NVML into a Fingerprint, and writes it as JSON.
#include "measure/fingerprint.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/json_writer.h"

namespace splitwave::measure {
namespace {

constexpr std::array<std::string_view, 9> k_isa_of_interest = {
    "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_bf16", "avx512_vnni", "asimd", "sve"};

// The first line of a small file, "" when it cannot be read.
std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The value of "key<spaces>: value"; empty when the line holds another key.
std::optional<std::string> value_after(const std::string& line, std::string_view key) {
  if (line.compare(0, key.size(), key) != 0) return {};
  const auto colon = line.find(':');
  if (colon == std::string::npos) return {};
  if (line.find_first_not_of(" \t", key.size()) != colon) return {};
  const auto start = line.find_first_not_of(" \t", colon + 1);
  return start == std::string::npos ? std::string() : line.substr(start);
}

std::optional<double> number_in(const std::string& text) {
  std::istringstream stream(text);
  stream.imbue(std::locale::classic());
  double number = 0;
  if (!(stream >> number)) return {};
  return number;
}

void read_cpuinfo(const std::string& path, HostFingerprint& host) {
  std::ifstream file(path);
  std::string line;
  std::string flags;
  while (std::getline(file, line)) {
    if (auto model = value_after(line, "model name"); model && host.cpu_model.empty()) {
      host.cpu_model = *model;
    }
    if (auto mhz = value_after(line, "cpu MHz"); mhz && !host.cpu_mhz) {
      host.cpu_mhz = number_in(*mhz);
    }
    if (!flags.empty()) continue;
    if (auto x86 = value_after(line, "flags")) flags = *x86;
    if (auto arm = value_after(line, "Features")) flags = *arm;
  }
  std::istringstream words(flags);
  for (std::string word; words >> word;) {
    if (word == "hypervisor") host.is_virtual = true;
    if (std::find(k_isa_of_interest.begin(), k_isa_of_interest.end(), word) !=
        k_isa_of_interest.end()) {
      host.isa.push_back(word);
    }
  }
}

void read_meminfo(const std::string& path, HostFingerprint& host) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto kib = [](const std::string& text) -> std::optional<std::int64_t> {
      const auto number = number_in(text);
      if (!number) return {};
      return static_cast<std::int64_t>(*number) * 1024;
    };
    if (auto total = value_after(line, "MemTotal")) host.memory_bytes = kib(*total);
    if (auto free = value_after(line, "MemAvailable")) host.memory_available_bytes = kib(*free);
  }
}

// cgroup v2: "max 100000" or "200000 100000".
std::optional<double> read_quota(const std::string& path) {
  std::istringstream stream(first_line(path));
  std::string quota;
  double period = 0;
  if (!(stream >> quota >> period) || quota == "max" || period <= 0) return {};
  const auto granted = number_in(quota);
  if (!granted) return {};
  return *granted / period;
}

void write_optional(JsonWriter& json, std::string_view name, std::optional<double> value) {
  json.key(name);
  value ? json.value(*value) : json.null();
}

void write_text(JsonWriter& json, std::string_view name, const std::string& text) {
  json.key(name);
  text.empty() ? json.null() : json.value(text);
}

void write_host(JsonWriter& json, const HostFingerprint& host) {
  json.begin_object();
  write_text(json, "cpu_model", host.cpu_model);
  json.key("isa").begin_array();
  for (const auto& name : host.isa) json.value(name);
  json.end_array();
  json.field("virtual", host.is_virtual);
  json.field("cpus_online", host.cpus_online).field("cpus_usable", host.cpus_usable);
  write_optional(json, "cpu_quota", host.cpu_quota);
  write_text(json, "governor", host.governor);
  write_optional(json, "cpu_mhz", host.cpu_mhz);
  write_optional(json, "load_average_1m", host.load_average_1m);
  write_text(json, "kernel", host.kernel);
  for (const auto& [name, bytes] :
       {std::pair("memory_bytes", host.memory_bytes),
        std::pair("memory_available_bytes", host.memory_available_bytes)}) {
    json.key(name);
    bytes ? json.value(*bytes) : json.null();
  }
  json.end_object();
}

void write_build(JsonWriter& json, const BuildInfo& build) {
  json.begin_object();
  json.field("version", build.version).field("commit", build.commit);
  json.field("compiler", build.compiler).field("build_type", build.build_type);
  json.field("flags", build.flags).field("sanitizers", build.sanitizers);
  json.field("cuda_compiler", build.cuda_compiler).field("cuda_archs", build.cuda_archs);
  json.end_object();
}

}  // namespace

HostFingerprint read_host(const std::string& root) {
  HostFingerprint host;
  const std::string base = root.ends_with('/') ? root : root + '/';
  read_cpuinfo(base + "proc/cpuinfo", host);
  read_meminfo(base + "proc/meminfo", host);
  host.load_average_1m = number_in(first_line(base + "proc/loadavg"));
  host.governor = first_line(base + "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (auto khz =
          number_in(first_line(base + "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"))) {
    host.cpu_mhz = *khz * 1e-3;
  }
  host.cpu_quota = read_quota(base + "sys/fs/cgroup/cpu.max");
  host.cpus_online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t mask;
  CPU_ZERO(&mask);
  // A machine with more CPUs than the mask holds refuses the call: then all that are online count.
  host.cpus_usable =
      sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : host.cpus_online;
  utsname system{};
  if (uname(&system) == 0) {
    host.kernel = std::string(system.sysname) + ' ' + system.release + ' ' + system.machine;
  }
  return host;
}

Fingerprint collect_fingerprint() {
  Fingerprint fingerprint;
  fingerprint.host = read_host();
  fingerprint.build = build_info();
  const Expected<Nvml> nvml = Nvml::open();
  if (!nvml) {
    fingerprint.gpu_absent = nvml.error().message;
    return fingerprint;
  }
  fingerprint.gpu_driver = nvml->driver_version();
  for (int device = 0; device < nvml->device_count(); ++device) {
    const auto identity = nvml->identity(device);
    const auto reading = nvml->read(device);
    if (!identity || !reading) continue;
    fingerprint.gpus.push_back({*identity, *reading});
  }
  if (fingerprint.gpus.empty()) fingerprint.gpu_absent = "the NVIDIA driver shows no device";
  return fingerprint;
}

void write_json(JsonWriter& json, const GpuReading& reading) {
  json.begin_object();
  write_optional(json, "sm_clock_mhz", reading.sm_clock_mhz);
  write_optional(json, "memory_clock_mhz", reading.memory_clock_mhz);
  write_optional(json, "power_w", reading.power_w);
  write_optional(json, "temperature_c", reading.temperature_c);
  write_optional(json, "sm_busy_percent", reading.sm_busy_percent);
  write_optional(json, "memory_busy_percent", reading.memory_busy_percent);
  json.key("throttle_reasons");
  reading.throttle_reasons ? json.value(static_cast<std::int64_t>(*reading.throttle_reasons))
                           : json.null();
  json.end_object();
}

void write_json(JsonWriter& json, const Fingerprint& fingerprint) {
  json.begin_object();
  json.key("host");
  write_host(json, fingerprint.host);
  json.key("build");
  write_build(json, fingerprint.build);
  write_text(json, "gpu_driver", fingerprint.gpu_driver);
  json.key("gpus").begin_array();
  for (const GpuFingerprint& gpu : fingerprint.gpus) {
    json.begin_object();
    json.field("name", gpu.identity.name);
    write_text(json, "uuid", gpu.identity.uuid);
    write_optional(json, "sm_clock_mhz_max", gpu.identity.sm_clock_mhz_max);
    write_optional(json, "power_cap_w", gpu.identity.power_cap_w);
    json.key("ecc");
    gpu.identity.ecc ? json.value(*gpu.identity.ecc) : json.null();
    json.key("reading");
    write_json(json, gpu.reading);
    json.end_object();
  }
  json.end_array();
  write_text(json, "gpu_absent", fingerprint.gpu_absent);
  json.end_object();
}

}  // namespace splitwave::measure
