// NVML by dlopen. The prototypes follow NVIDIA's "NVML API Reference Guide"; enum values are part
// of its ABI.
#include "measure/nvml.h"

#include <dlfcn.h>

#include <array>
#include <utility>

namespace splitwave::measure {
namespace {

using Device = void*;
using Return = int;
constexpr Return k_success = 0;
constexpr int k_clock_sm = 1;
constexpr int k_clock_memory = 2;
constexpr int k_temperature_gpu = 0;

struct Utilization {
  unsigned int gpu;
  unsigned int memory;
};

}  // namespace

struct Nvml::Library {
  void* handle = nullptr;
  bool initialised = false;
  int devices = 0;
  std::string driver;

  Return (*init)() = nullptr;
  Return (*shutdown)() = nullptr;
  const char* (*error_text)(Return) = nullptr;
  Return (*count)(unsigned int*) = nullptr;
  Return (*by_index)(unsigned int, Device*) = nullptr;
  Return (*by_pci)(const char*, Device*) = nullptr;
  Return (*index_of)(Device, unsigned int*) = nullptr;
  Return (*driver_text)(char*, unsigned int) = nullptr;
  Return (*name)(Device, char*, unsigned int) = nullptr;
  Return (*uuid)(Device, char*, unsigned int) = nullptr;
  Return (*clock)(Device, int, unsigned int*) = nullptr;
  Return (*clock_max)(Device, int, unsigned int*) = nullptr;
  Return (*power_mw)(Device, unsigned int*) = nullptr;
  Return (*power_limit_mw)(Device, unsigned int*) = nullptr;
  Return (*temperature)(Device, int, unsigned int*) = nullptr;
  Return (*ecc)(Device, int*, int*) = nullptr;
  Return (*busy)(Device, Utilization*) = nullptr;
  Return (*throttle)(Device, unsigned long long*) = nullptr;

  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (initialised) shutdown();
    if (handle != nullptr) dlclose(handle);
  }

  template <class Function>
  bool load(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(dlsym(handle, symbol));
    return function != nullptr;
  }

  // The first symbol that is missing, or null.
  const char* load_required() {
    if (!load(init, "nvmlInit_v2")) return "nvmlInit_v2";
    if (!load(shutdown, "nvmlShutdown")) return "nvmlShutdown";
    if (!load(error_text, "nvmlErrorString")) return "nvmlErrorString";
    if (!load(count, "nvmlDeviceGetCount_v2")) return "nvmlDeviceGetCount_v2";
    if (!load(by_index, "nvmlDeviceGetHandleByIndex_v2")) return "nvmlDeviceGetHandleByIndex_v2";
    if (!load(driver_text, "nvmlSystemGetDriverVersion")) return "nvmlSystemGetDriverVersion";
    if (!load(name, "nvmlDeviceGetName")) return "nvmlDeviceGetName";
    return nullptr;
  }

  // Readings are optional: an old driver that lacks one still gives the others.
  void load_optional() {
    load(by_pci, "nvmlDeviceGetHandleByPciBusId_v2");
    load(index_of, "nvmlDeviceGetIndex");
    load(uuid, "nvmlDeviceGetUUID");
    load(clock, "nvmlDeviceGetClockInfo");
    load(clock_max, "nvmlDeviceGetMaxClockInfo");
    load(power_mw, "nvmlDeviceGetPowerUsage");
    load(power_limit_mw, "nvmlDeviceGetEnforcedPowerLimit");
    load(temperature, "nvmlDeviceGetTemperature");
    load(ecc, "nvmlDeviceGetEccMode");
    load(busy, "nvmlDeviceGetUtilizationRates");
    load(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
  }

  [[nodiscard]] Error failure(const std::string& call, Return code) const {
    return environment_error("NVML: " + call + ": " + error_text(code));
  }

  [[nodiscard]] Expected<Device> device(int index) const {
    if (index < 0 || index >= devices) {
      return bad_input("GPU " + std::to_string(index) + " does not exist; NVML sees " +
                       std::to_string(devices));
    }
    Device found = nullptr;
    const Return code = by_index(static_cast<unsigned int>(index), &found);
    if (code != k_success) return failure("device " + std::to_string(index), code);
    return found;
  }
};

namespace {

// Calls an optional getter of one unsigned value; empty when it is missing or refuses.
template <class Function, class... Arguments>
std::optional<double> value_of(Function function, double scale, Arguments... arguments) {
  unsigned int value = 0;
  if (function == nullptr || function(arguments..., &value) != k_success) return {};
  return value * scale;
}

}  // namespace

Nvml::Nvml(std::unique_ptr<Library> library) : library_(std::move(library)) {}
Nvml::Nvml(Nvml&&) noexcept = default;
Nvml& Nvml::operator=(Nvml&&) noexcept = default;
Nvml::~Nvml() = default;

Expected<Nvml> Nvml::open(const std::string& library_name) {
  auto library = std::make_unique<Library>();
  library->handle = dlopen(library_name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library->handle == nullptr) {
    const char* reason = dlerror();
    return environment_error("no NVIDIA driver library: " +
                             std::string(reason != nullptr ? reason : library_name));
  }
  if (const char* missing = library->load_required()) {
    return environment_error(library_name + " lacks " + missing +
                             ": it is not NVML, or older than driver 330");
  }
  library->load_optional();
  if (const Return code = library->init(); code != k_success) {
    return library->failure("init", code);
  }
  library->initialised = true;
  unsigned int count = 0;
  if (const Return code = library->count(&count); code != k_success) {
    return library->failure("device count", code);
  }
  library->devices = static_cast<int>(count);
  std::array<char, 96> text{};
  if (library->driver_text(text.data(), text.size()) == k_success) library->driver = text.data();
  return Nvml(std::move(library));
}

int Nvml::device_count() const { return library_->devices; }

const std::string& Nvml::driver_version() const { return library_->driver; }

Expected<GpuIdentity> Nvml::identity(int index) const {
  const Expected<Device> device = library_->device(index);
  if (!device) return device.error();
  GpuIdentity identity;
  std::array<char, 96> text{};
  if (const Return code = library_->name(*device, text.data(), text.size()); code != k_success) {
    return library_->failure("name", code);
  }
  identity.name = text.data();
  if (library_->uuid != nullptr && library_->uuid(*device, text.data(), text.size()) == k_success) {
    identity.uuid = text.data();
  }
  identity.sm_clock_mhz_max = value_of(library_->clock_max, 1, *device, k_clock_sm);
  identity.power_cap_w = value_of(library_->power_limit_mw, 1e-3, *device);
  int current = 0;
  int pending = 0;
  if (library_->ecc != nullptr && library_->ecc(*device, &current, &pending) == k_success) {
    identity.ecc = current != 0;
  }
  return identity;
}

Expected<GpuReading> Nvml::read(int index) const {
  const Expected<Device> device = library_->device(index);
  if (!device) return device.error();
  GpuReading reading;
  reading.sm_clock_mhz = value_of(library_->clock, 1, *device, k_clock_sm);
  reading.memory_clock_mhz = value_of(library_->clock, 1, *device, k_clock_memory);
  reading.power_w = value_of(library_->power_mw, 1e-3, *device);
  reading.temperature_c = value_of(library_->temperature, 1, *device, k_temperature_gpu);
  Utilization busy{};
  if (library_->busy != nullptr && library_->busy(*device, &busy) == k_success) {
    reading.sm_busy_percent = busy.gpu;
    reading.memory_busy_percent = busy.memory;
  }
  unsigned long long reasons = 0;
  if (library_->throttle != nullptr && library_->throttle(*device, &reasons) == k_success) {
    reading.throttle_reasons = reasons;
  }
  return reading;
}

Expected<int> Nvml::device_of_pci(const std::string& bus_id) const {
  if (library_->by_pci == nullptr || library_->index_of == nullptr) {
    return environment_error("this driver's NVML cannot find a device by its PCI bus id");
  }
  Device found = nullptr;
  Return code = library_->by_pci(bus_id.c_str(), &found);
  unsigned int index = 0;
  if (code == k_success) code = library_->index_of(found, &index);
  if (code != k_success) return library_->failure("device at PCI " + bus_id, code);
  return static_cast<int>(index);
}

}  // namespace splitwave::measure
