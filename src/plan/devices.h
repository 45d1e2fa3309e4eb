// The device table: GPUs that a plan can be made for without owning one. Owns the numbers and their
// sources. Must not ask a driver: `auto` is the runtime's. Called by the command line and by tests.
#pragma once

#include <span>
#include <string_view>

#include "splitwave/device.h"
#include "splitwave/status.h"

namespace splitwave {

[[nodiscard]] std::span<const DeviceSpec> known_devices();

// A device by its key; an unknown one is refused with the keys and the nearest.
[[nodiscard]] Expected<DeviceSpec> find_device(std::string_view name);

// The per-SM limits of a compute capability (80, 86, 89, 90, 100, 120, 121), as the base of a spec
// whose product numbers come from a driver; arch 0 in the result: the capability is not known.
[[nodiscard]] DeviceSpec capability_limits(int arch);

}  // namespace splitwave
