// CUDA devices as the planner sees them. Owns the driver queries; nothing here launches. Only in
// builds with CUDA. Called by the CUDA backend and by list_devices.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "splitwave/device.h"
#include "splitwave/status.h"

namespace splitwave {

// An environment error with the call and CUDA's words for the code; ok for cudaSuccess.
[[nodiscard]] Status cuda_status(cudaError_t code, const char* what);

// The device with that ordinal: limits of its capability, product numbers from the device table
// where the driver's name is in it, otherwise from the driver. Refuses one that does not exist.
[[nodiscard]] Expected<DeviceSpec> query_cuda_device(int ordinal);

// Makes a device current for a scope and restores the caller's.
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int previous_ = -1;
  bool changed_ = false;
};

// Lets this thread allocate and load modules for a scope while a stream of its is being captured,
// which CUDA refuses by default: a decoder may be created inside a capture.
class RelaxedCapture {
 public:
  RelaxedCapture();
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  bool changed_ = false;
};

}  // namespace splitwave
