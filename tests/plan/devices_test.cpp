// The device table: keys, sources, numbers that must agree with each other.
#include "plan/devices.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace splitwave {
namespace {

TEST(Devices, TheTableHoldsThePromisedGpusWithTheirSms) {
  const std::pair<const char*, int> promised[] = {
      {"rtx-pro-6000", 188}, {"rtx-5090", 170}, {"gb10", 48},  {"h200", 132},
      {"h100", 132},         {"b200", 148},     {"a100", 108}, {"l40s", 142}};
  for (const auto& [name, sms] : promised) {
    const auto device = find_device(name);
    ASSERT_TRUE(device.ok()) << device.error().message;
    EXPECT_EQ(device->sm_count, sms) << name;
  }
  EXPECT_EQ(known_devices().size(), std::size(promised));
}

TEST(Devices, EveryEntryIsCompleteAndNamesItsSource) {
  std::set<std::string> names;
  for (const DeviceSpec& d : known_devices()) {
    EXPECT_TRUE(names.insert(d.name).second) << d.name << " stands twice";
    EXPECT_FALSE(d.product.empty()) << d.name;
    EXPECT_GT(d.source.size(), 40U) << d.name;
    EXPECT_GT(d.l2_bytes, 0) << d.name;
    EXPECT_GT(d.dram_gbps, 100) << d.name;
    EXPECT_GT(d.sm_clock_ghz, 1) << d.name;
    EXPECT_EQ(d.shared_bytes_per_sm - d.shared_bytes_reserved_per_cta, d.shared_bytes_per_cta_max);
    // Dense BF16 rates are a power of two a clock and SM, up to how the vendor rounds and to the
    // clock that the rate was quoted at.
    const double flops = d.bf16_tflops * 1e3 / d.sm_count / d.sm_clock_ghz;
    bool is_near = false;
    for (double rate = 256; rate <= 8192; rate *= 2) {
      is_near = is_near || (flops > 0.9 * rate && flops < 1.06 * rate);
    }
    EXPECT_TRUE(is_near) << d.name << ": " << flops << " FLOPs a clock and SM";
  }
}

TEST(Devices, AnUnknownNameIsRefusedWithTheNearestAndTheList) {
  const auto device = find_device("rtx-pro6000");
  ASSERT_FALSE(device.ok());
  EXPECT_NE(device.error().message.find("did you mean rtx-pro-6000?"), std::string::npos);
  EXPECT_NE(device.error().message.find("gb10, h200"), std::string::npos);
  EXPECT_FALSE(find_device("").ok());
  EXPECT_FALSE(find_device("auto").ok()) << "auto is the runtime's, not the table's";
}

TEST(Devices, AnUnknownCapabilityHasNoLimits) { EXPECT_EQ(capability_limits(75).arch, 0); }

}  // namespace
}  // namespace splitwave
