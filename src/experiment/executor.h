// What the runner asks of whatever executes the arms. Owns ArmExecutor, the seam between the
// protocol and a backend: decode calls today (decode_executor.h); deployments of a live server plug
// in here too: their `prepare` deploys and waits, their `measure` runs the load generator, their
// echo is the server's /config. Called by the runner; implemented by executors and by the tests'
// fakes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiment/run_record.h"
#include "splitwave/status.h"

namespace splitwave::experiment {

struct ExecutorInfo {
  std::string backend;
  std::string backend_reason;
  std::string device;
  std::string clock_source;
};

class ArmExecutor {
 public:
  virtual ~ArmExecutor() = default;

  [[nodiscard]] virtual ExecutorInfo info() const = 0;

  // What the arm really does at a concurrency (any from 1 to the largest point), one entry a
  // stream, read back from what runs.
  [[nodiscard]] virtual Expected<std::vector<Echo>> echo(int arm, int concurrency) = 0;

  // An error, in words, when an override of the arm's plan is not in what echo() reads back.
  [[nodiscard]] virtual Status check_took_effect(int arm, int concurrency) = 0;

  // The gates of these arms at a point, before anything is timed.
  [[nodiscard]] virtual Expected<std::vector<GateResult>> run_gates(int point,
                                                                    std::span<const int> arms) = 0;

  // One sample: microseconds per call of each stream, on the given batch of the point.
  [[nodiscard]] virtual Expected<std::vector<double>> measure(int arm, int point, int batch) = 0;

  // The clock at which the work runs, now.
  [[nodiscard]] virtual Expected<double> clock_ghz() = 0;

  // For the record and the cost estimate.
  [[nodiscard]] virtual int calls_per_sample(int point) const = 0;
  [[nodiscard]] virtual int index_sets(int point) const = 0;
  [[nodiscard]] virtual double sample_us(int point) const = 0;
  [[nodiscard]] virtual double gates_estimate_s() const = 0;
};

}  // namespace splitwave::experiment
