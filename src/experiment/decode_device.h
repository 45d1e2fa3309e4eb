// Where decode calls run and how they are timed. Owns DecodeDevice, the line between the executor's
// protocol and one backend: host memory and a host clock, or device memory, streams and events.
// Implemented in decode_device_cpu.cpp and, in builds with CUDA, decode_device_cuda.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "experiment/decode_inputs.h"
#include "splitwave/decoder.h"
#include "splitwave/status.h"

namespace splitwave::experiment {

struct TimedCalls {
  int stream = 0;
  int point = 0;
  int batch = 0;
  int first_set = 0;  // the calls take this set and the following ones, round robin
  int calls = 1;
};

class DecodeDevice {
 public:
  virtual ~DecodeDevice() = default;

  // The cache that a cold call must not find its rows in.
  [[nodiscard]] virtual std::int64_t cache_bytes() const = 0;

  // Makes a stream's inputs readable where the calls run. Once a stream, before any call of it; the
  // inputs must outlive the device.
  [[nodiscard]] virtual Status add_stream(const StreamInputs& inputs) = 0;

  // Executes one call whose pointers are host memory and waits: the gates' way in. The pools are
  // those of the stream's inputs; queries and lists may be anyone's.
  [[nodiscard]] virtual Status run_host(Decoder& decoder, int stream, const DecodeCall& call) = 0;

  // Mean microseconds of a call. One untimed call goes before several: it wakes the workers.
  [[nodiscard]] virtual Expected<double> time_calls(Decoder& decoder, const TimedCalls& what) = 0;

  [[nodiscard]] virtual Expected<double> clock_ghz() = 0;
  [[nodiscard]] virtual std::string clock_source() const = 0;
};

// execution: eager, or (CUDA only) replays of captured graphs.
[[nodiscard]] Expected<std::unique_ptr<DecodeDevice>> make_cpu_device(Execution execution);
[[nodiscard]] Expected<std::unique_ptr<DecodeDevice>> make_cuda_device(Execution execution,
                                                                       int device);

}  // namespace splitwave::experiment
