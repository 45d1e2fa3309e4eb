// --device of plan and occupancy: a key of the device table, cpu, or auto (asks the machine).
// Called by cmd_plan.cpp and cmd_occupancy.cpp.
#pragma once

#include <string>

#include "splitwave/device.h"
#include "splitwave/status.h"

namespace splitwave::app {

struct ChosenDevice {
  DeviceSpec device;
  std::string reason;  // for auto: what was found
};

[[nodiscard]] Expected<ChosenDevice> device_argument(const std::string& name);

// For --help: "rtx-pro-6000, ..., cpu, auto".
[[nodiscard]] std::string device_names();

}  // namespace splitwave::app
