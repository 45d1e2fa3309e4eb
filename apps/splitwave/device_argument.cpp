// Table, CPU, or the first GPU of this machine.
#include "device_argument.h"

#include <string_view>
#include <vector>

#include "base/nearest_name.h"
#include "plan/devices.h"
#include "splitwave/decoder.h"

namespace splitwave::app {
namespace {

std::vector<std::string_view> all_names() {
  std::vector<std::string_view> names;
  for (const DeviceSpec& device : known_devices()) names.push_back(device.name);
  names.emplace_back("cpu");
  names.emplace_back("auto");
  return names;
}

}  // namespace

std::string device_names() { return join_names(all_names()); }

Expected<ChosenDevice> device_argument(const std::string& name) {
  if (name == "cpu" || name == "auto") {
    const std::vector<DeviceSpec> present = list_devices();
    if (name == "cpu") return ChosenDevice{present.front(), "asked for"};
    if (present.size() > 1) return ChosenDevice{present[1], "auto: the first CUDA device"};
    return ChosenDevice{present.front(), "auto: this process sees no CUDA device"};
  }
  const Expected<DeviceSpec> found = find_device(name);
  if (found.ok()) return ChosenDevice{*found, "asked for"};
  const std::vector<std::string_view> names = all_names();
  return bad_input("device='" + name + "' is not known" + did_you_mean(name, names) +
                   "; what works: " + join_names(names));
}

}  // namespace splitwave::app
