// Fuzzes the cubin reader: any bytes give kernels with figures that a GPU could have, or an error;
// nothing is read outside the file (ASan: the input is copied into a block of exactly its size).
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "plan/cubin.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::uint8_t> image(data, data + size);
  const auto cubin = splitwave::parse_cubin(image);
  if (!cubin.ok()) {
    SPLITWAVE_CHECK(!cubin.error().message.empty(), "an error without words");
    return 0;
  }
  SPLITWAVE_CHECK(!cubin->kernels.empty(), "a cubin without kernels was accepted");
  for (const splitwave::CubinKernel& kernel : cubin->kernels) {
    SPLITWAVE_CHECK(!kernel.name.empty() && kernel.name.size() < size, "a name from elsewhere");
    SPLITWAVE_CHECK(kernel.registers >= 0 && kernel.threads_max >= 0, "negative resources");
    SPLITWAVE_CHECK(kernel.static_shared_bytes >= 0, "negative shared memory");
  }
  return 0;
}
