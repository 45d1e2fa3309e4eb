// NVML through dlopen, against planted driver libraries.
#include "measure/nvml.h"

#include <gtest/gtest.h>

namespace splitwave::measure {
namespace {

TEST(Nvml, AMachineWithoutTheLibraryGetsAnEnvironmentErrorThatNamesIt) {
  const auto nvml = Nvml::open("libno-such-driver.so.1");
  ASSERT_FALSE(nvml.ok());
  EXPECT_EQ(nvml.error().kind, ErrorKind::environment);
  EXPECT_NE(nvml.error().message.find("libno-such-driver.so.1"), std::string::npos);
}

TEST(Nvml, ALibraryThatIsNotNvmlIsRefusedByTheSymbolItLacks) {
  const auto nvml = Nvml::open(FAKE_NVML_FOREIGN);
  ASSERT_FALSE(nvml.ok());
  EXPECT_NE(nvml.error().message.find("nvmlInit_v2"), std::string::npos);
}

TEST(Nvml, ADriverThatDoesNotStartIsReportedInItsOwnWords) {
  const auto nvml = Nvml::open(FAKE_NVML_REFUSING);
  ASSERT_FALSE(nvml.ok());
  EXPECT_EQ(nvml.error().kind, ErrorKind::environment);
  EXPECT_NE(nvml.error().message.find("Driver Not Loaded"), std::string::npos);
}

TEST(Nvml, ReadsClocksPowerAndTemperatureInTheirUnits) {
  auto nvml = Nvml::open(FAKE_NVML_COMPLETE);
  ASSERT_TRUE(nvml.ok()) << nvml.error().message;
  EXPECT_EQ(nvml->device_count(), 2);
  EXPECT_EQ(nvml->driver_version(), "580.65");
  const auto identity = nvml->identity(0);
  ASSERT_TRUE(identity.ok());
  EXPECT_EQ(identity->name, "Fake GPU A");
  EXPECT_EQ(identity->power_cap_w, 700.0);
  EXPECT_EQ(identity->sm_clock_mhz_max, 1980.0);
  EXPECT_EQ(identity->ecc, true);
  const auto reading = nvml->read(0);
  ASSERT_TRUE(reading.ok());
  EXPECT_EQ(reading->sm_clock_mhz, 1785.0);
  EXPECT_EQ(reading->memory_clock_mhz, 2619.0);
  EXPECT_EQ(reading->power_w, 412.5);
  EXPECT_EQ(reading->temperature_c, 61.0);
  EXPECT_EQ(reading->throttle_reasons, 4U);
}

TEST(Nvml, WhatADeviceDoesNotReportIsEmptyAndNotZero) {
  auto nvml = Nvml::open(FAKE_NVML_COMPLETE);
  ASSERT_TRUE(nvml.ok());
  EXPECT_FALSE(nvml->read(1)->power_w.has_value());
  EXPECT_FALSE(nvml->identity(1)->ecc.has_value());
  EXPECT_FALSE(nvml->read(0)->sm_busy_percent.has_value()) << "the entry point is missing";
}

TEST(Nvml, FindsTheDeviceThatCudaKnowsByItsPciBusId) {
  auto nvml = Nvml::open(FAKE_NVML_COMPLETE);
  ASSERT_TRUE(nvml.ok());
  const auto device = nvml->device_of_pci("0000:1B:00.0");
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(*device, 1);
  EXPECT_FALSE(nvml->device_of_pci("0000:00:00.0").ok());
}

TEST(Nvml, ADeviceThatDoesNotExistIsBadInput) {
  auto nvml = Nvml::open(FAKE_NVML_COMPLETE);
  ASSERT_TRUE(nvml.ok());
  ASSERT_FALSE(nvml->read(2).ok());
  EXPECT_EQ(nvml->read(2).error().kind, ErrorKind::bad_input);
  EXPECT_FALSE(nvml->read(-1).ok());
}

}  // namespace
}  // namespace splitwave::measure
