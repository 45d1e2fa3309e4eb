// A driver library for tests: NVML's entry points with planted answers. Owns nothing else; loaded
// by nvml_test.cpp through dlopen.
#include <cstdio>
#include <cstring>

extern "C" {

#ifdef FAKE_NVML_FOREIGN
int some_other_library() { return 0; }
#else

static int device_a;
static int device_b;

int nvmlInit_v2() {
#ifdef FAKE_NVML_REFUSING
  return 9;  // NVML_ERROR_DRIVER_NOT_LOADED
#else
  return 0;
#endif
}
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "Not Supported"; }
int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  *device = index == 0 ? &device_a : &device_b;
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  if (std::strcmp(bus_id, "0000:1B:00.0") != 0) return 6;
  *device = &device_b;
  return 0;
}
int nvmlDeviceGetIndex(void* device, unsigned int* index) {
  *index = device == &device_b ? 1 : 0;
  return 0;
}
int nvmlSystemGetDriverVersion(char* text, unsigned int length) {
  std::snprintf(text, length, "580.65");
  return 0;
}
int nvmlDeviceGetName(void* device, char* text, unsigned int length) {
  std::snprintf(text, length, "Fake GPU %s", device == &device_a ? "A" : "B");
  return 0;
}
int nvmlDeviceGetUUID(void*, char* text, unsigned int length) {
  std::snprintf(text, length, "GPU-0123");
  return 0;
}
int nvmlDeviceGetClockInfo(void*, int type, unsigned int* mhz) {
  *mhz = type == 1 ? 1785 : 2619;
  return type == 1 || type == 2 ? 0 : 2;
}
int nvmlDeviceGetMaxClockInfo(void*, int, unsigned int* mhz) {
  *mhz = 1980;
  return 0;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned int* milliwatts) {
  *milliwatts = 412'500;
  return device == &device_a ? 0 : 3;  // device B does not report power: NVML_ERROR_NOT_SUPPORTED
}
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned int* milliwatts) {
  *milliwatts = 700'000;
  return 0;
}
int nvmlDeviceGetTemperature(void*, int, unsigned int* degrees) {
  *degrees = 61;
  return 0;
}
int nvmlDeviceGetEccMode(void* device, int* current, int* pending) {
  *current = 1;
  *pending = 1;
  return device == &device_a ? 0 : 3;
}
// No nvmlDeviceGetUtilizationRates: an optional entry point that is missing.
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  *reasons = 4;  // software power cap
  return 0;
}

#endif
}
