// The fingerprint, from planted proc and sys trees and from this machine.
#include "measure/fingerprint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/json_writer.h"

namespace splitwave::measure {
namespace {

namespace fs = std::filesystem;

class PlantedRoot : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            ("fingerprint_" +
             std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void plant(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  fs::path root_;
};

TEST_F(PlantedRoot, X86HostIsReadInFull) {
  plant("proc/cpuinfo",
        "processor\t: 0\nmodel name\t: AMD EPYC 9655\ncpu MHz\t\t: 2600.5\n"
        "flags\t\t: fpu hypervisor avx2 fma avx512f avx512_bf16 sse\n\n"
        "processor\t: 1\nmodel name\t: other\ncpu MHz\t\t: 1.0\nflags\t\t: fpu\n");
  plant("proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\nMemAvailable:    8192 kB\n");
  plant("proc/loadavg", "0.75 0.50 0.25 1/100 4242\n");
  plant("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
  plant("sys/fs/cgroup/cpu.max", "150000 100000\n");
  const HostFingerprint host = read_host(root_);
  EXPECT_EQ(host.cpu_model, "AMD EPYC 9655");
  EXPECT_EQ(host.cpu_mhz, 2600.5);
  EXPECT_EQ(host.isa, (std::vector<std::string>{"avx2", "fma", "avx512f", "avx512_bf16"}));
  EXPECT_TRUE(host.is_virtual);
  EXPECT_EQ(host.memory_bytes, 16384 * 1024);
  EXPECT_EQ(host.memory_available_bytes, 8192 * 1024);
  EXPECT_EQ(host.load_average_1m, 0.75);
  EXPECT_EQ(host.governor, "performance");
  EXPECT_EQ(host.cpu_quota, 1.5);
}

TEST_F(PlantedRoot, AnUnlimitedCgroupHasNoQuotaAndTheMeasuredClockWins) {
  plant("sys/fs/cgroup/cpu.max", "max 100000\n");
  plant("proc/cpuinfo", "cpu MHz\t\t: 1000\n");
  plant("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3700000\n");
  const HostFingerprint host = read_host(root_);
  EXPECT_FALSE(host.cpu_quota.has_value());
  EXPECT_EQ(host.cpu_mhz, 3700.0);
}

TEST_F(PlantedRoot, WhatTheSystemDoesNotTellIsNullInJson) {
  Fingerprint fingerprint;
  fingerprint.host = read_host(root_);
  fingerprint.build = build_info();
  fingerprint.gpu_absent = "no driver";
  JsonWriter json;
  write_json(json, fingerprint);
  const std::string text = json.str();
  for (const char* field : {"\"cpu_model\": null", "\"governor\": null", "\"cpu_mhz\": null",
                            "\"load_average_1m\": null", "\"memory_bytes\": null", "\"gpus\": []",
                            "\"gpu_absent\": \"no driver\""}) {
    EXPECT_NE(text.find(field), std::string::npos) << field << " not in\n" << text;
  }
}

TEST(Fingerprint, OfThisMachineHasCpusAndAKernelAndAGpuOrTheReasonWhyNot) {
  const Fingerprint fingerprint = collect_fingerprint();
  EXPECT_GE(fingerprint.host.cpus_usable, 1);
  EXPECT_GE(fingerprint.host.cpus_online, fingerprint.host.cpus_usable);
  EXPECT_EQ(fingerprint.host.kernel.rfind("Linux", 0), 0U);
  EXPECT_EQ(fingerprint.gpus.empty(), !fingerprint.gpu_absent.empty());
}

}  // namespace
}  // namespace splitwave::measure
