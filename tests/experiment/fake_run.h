// Runs without a machine: a RunSpec by hand, an executor whose times are a formula, and records
// made of them. Owns the fakes of tests/experiment.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "experiment/executor.h"
#include "experiment/run_spec.h"
#include "experiment/runner.h"
#include "experiment/schedule.h"

namespace splitwave::experiment::test {

inline RunSpec fake_spec(const std::vector<std::string>& arms, const std::vector<int>& points,
                         int rounds) {
  RunSpec run;
  run.slug = "0000-fake";
  run.backend = "cpu";
  run.model = "v4-flash";
  run.heads = 64;
  run.streams = {{"c4", 21, 128, 4, 512}, {"window", 2, 128, 0, 0}};
  for (const std::string& name : arms) {
    run.arms.push_back({name, run.arms.empty() ? "" : "block_heads=16", Planted::none, 0});
  }
  for (const int c : points) {
    PointSpec p;
    p.concurrency = c;
    p.weight = 1.0 / static_cast<double>(points.size());
    p.batches.push_back({std::vector<int>(static_cast<std::size_t>(c), 1000)});
    run.points.push_back(p);
  }
  run.stopping = {StopRule::fixed, rounds, rounds, 0.05};
  run.analysis.minimum_effect = 0.02;
  run.analysis.resamples = 2'000;
  return run;
}

// Times by formula: us of one call of a stream, for an arm, a point and the count of samples so
// far.
class FakeExecutor : public ArmExecutor {
 public:
  explicit FakeExecutor(RunSpec spec) : run(std::move(spec)) {}

  RunSpec run;
  double noise = 0.01;        // standard deviation of the log of a sample's time
  double round_noise = 0.02;  // shared by everything in one round
  std::function<double(int arm, int point)> speed = [](int, int) { return 1.0; };  // time factor
  std::function<double(double sample)> clock = [](double) { return 2.0; };         // GHz
  std::function<std::vector<GateResult>(int arm, int point)> gate = [](int, int) {
    return std::vector<GateResult>{};
  };
  std::function<Status(int samples)> before_sample = [](int) { return Status(); };
  bool arms_take_effect = true;  // false: every arm launches what the incumbent launches
  std::string effect_error;      // check_took_effect's refusal of arm 1
  Rng rng{1};
  int samples = 0;

  [[nodiscard]] ExecutorInfo info() const override {
    return {"fake", "a test", "formula", "formula"};
  }

  Expected<std::vector<Echo>> echo(int arm, int concurrency) override {
    std::vector<Echo> out;
    for (const Stream& s : run.streams) {
      Echo e;
      e.arm = arm;
      e.concurrency = concurrency;
      e.stream = s.name;
      e.backend = "fake";
      e.variant = "fake";
      e.block_heads = arms_take_effect && arm > 0 ? 8 * arm : 64;
      e.predicted_us = 10.0 * concurrency * (arm > 0 ? 0.99 : 1.0);
      out.push_back(e);
    }
    return out;
  }
  Status check_took_effect(int arm, int) override {
    if (arm == 1 && !effect_error.empty()) return gate_error(effect_error);
    return {};
  }
  Expected<std::vector<GateResult>> run_gates(int point, std::span<const int> arms) override {
    std::vector<GateResult> out;
    for (const int arm : arms) {
      for (GateResult& g : gate(arm, point)) out.push_back(std::move(g));
      out.push_back({arm, point, run.streams[0].name, "invariance", true, 0, ""});
    }
    return out;
  }
  Expected<std::vector<double>> measure(int arm, int point, int) override {
    if (Status s = before_sample(samples); !s.ok()) return s.error();
    const int per_round =
        2 * slot_count(static_cast<int>(run.arms.size())) * static_cast<int>(run.points.size());
    if (samples % per_round == 0) shared_ = std::exp(round_noise * rng.normal());
    const double c = run.points[static_cast<std::size_t>(point)].concurrency;
    const double ghz = clock(samples);
    ++samples;
    const double us = 50 * (0.2 + 0.8 * c) * speed(arm, point) * shared_ *
                      std::exp(noise * rng.normal()) * 2.0 / ghz;
    return std::vector<double>(run.streams.size(), us);
  }
  Expected<double> clock_ghz() override { return clock(samples); }
  [[nodiscard]] int calls_per_sample(int) const override { return 3; }
  [[nodiscard]] int index_sets(int) const override { return 4; }
  [[nodiscard]] double sample_us(int) const override { return 1000; }
  [[nodiscard]] double gates_estimate_s() const override { return 1; }

 private:
  double shared_ = 1;
};

}  // namespace splitwave::experiment::test
