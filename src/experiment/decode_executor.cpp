// One decoder an arm and stream; all arms share the inputs, so that a difference is the arm's.
#include "experiment/decode_executor.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "base/check.h"
#include "experiment/decode_device.h"
#include "experiment/decode_inputs.h"
#include "experiment/gates.h"
#include "experiment/launch_echo.h"
#include "experiment/planted.h"
#include "measure/host_timer.h"
#include "runtime/environment.h"

namespace splitwave::experiment {
namespace {

constexpr int k_calls_per_sample_max = 10'000;

Expected<DecoderOptions> options_for(const RunSpec& run) {
  const auto environment = read_environment();
  if (!environment.ok()) return environment.error();
  if (environment->plan != PlanOverrides{}) {
    return bad_input("SPLITWAVE_PLAN is set to '" + to_string(environment->plan) +
                     "': it would change every arm; unset it, each arm states its own plan");
  }
  DecoderOptions options;
  options.read_environment = false;
  options.backend = run.backend == "cpu"    ? Backend::cpu
                    : run.backend == "cuda" ? Backend::cuda
                                            : environment->backend;
  options.threads = run.threads != 0 ? run.threads : environment->threads.value_or(0);
  return options;
}

class DecodeExecutor final : public ArmExecutor {
 public:
  explicit DecodeExecutor(const RunSpec& run) : run_(run) {}

  Status prepare() {
    if (Status status = make_decoders(); !status.ok()) return status;
    const Decoder& first = decoders_[0][0];
    auto device = first.backend() == Backend::cuda ? make_cuda_device(run_.execution, 0)
                                                   : make_cpu_device(run_.execution);
    if (!device.ok()) return device.error();
    device_ = std::move(*device);
    inputs_.reserve(run_.streams.size());  // the device keeps pointers to them
    for (std::size_t s = 0; s < run_.streams.size(); ++s) {
      auto inputs = StreamInputs::make(run_, static_cast<int>(s), device_->cache_bytes());
      if (!inputs.ok()) return inputs.error();
      inputs_.push_back(std::move(*inputs));
      if (Status status = device_->add_stream(inputs_.back()); !status.ok()) return status;
    }
    next_set_.assign(run_.streams.size() * run_.points.size(), 0);
    calls_.assign(run_.points.size(), 1);
    for (std::size_t p = 0; p < run_.points.size(); ++p) {
      if (Status status = calibrate(static_cast<int>(p)); !status.ok()) return status;
    }
    return {};
  }

  [[nodiscard]] ExecutorInfo info() const override {
    const Decoder& first = decoders_[0][0];
    return {first.backend() == Backend::cuda ? "cuda" : "cpu", first.backend_reason(),
            first.device().product.empty() ? first.device().name : first.device().product,
            device_->clock_source()};
  }

  Expected<std::vector<Echo>> echo(int arm, int concurrency) override {
    std::vector<Echo> out;
    for (std::size_t s = 0; s < run_.streams.size(); ++s) {
      Echo e = launch_echo(decoder(arm, s), concurrency);
      e.arm = arm;
      e.stream = run_.streams[s].name;
      out.push_back(std::move(e));
    }
    return out;
  }

  Status check_took_effect(int arm, int concurrency) override {
    for (std::size_t s = 0; s < run_.streams.size(); ++s) {
      const std::string problem = override_mismatch(overrides_[static_cast<std::size_t>(arm)],
                                                    decoder(arm, s), concurrency);
      if (!problem.empty()) {
        return gate_error("arm " + run_.arms[static_cast<std::size_t>(arm)].name + ", stream " +
                          run_.streams[s].name + ", C" + std::to_string(concurrency) +
                          ": the override did not take effect: " + problem);
      }
    }
    return {};
  }

  Expected<std::vector<GateResult>> run_gates(int point, std::span<const int> arms) override;

  Expected<std::vector<double>> measure(int arm, int point, int batch) override {
    std::vector<double> out;
    const ArmSpec& spec = run_.arms[static_cast<std::size_t>(arm)];
    for (std::size_t s = 0; s < run_.streams.size(); ++s) {
      int& next = next_set_[s * run_.points.size() + static_cast<std::size_t>(point)];
      const int calls = calls_[static_cast<std::size_t>(point)];
      const TimedCalls what{static_cast<int>(s), point, batch, next, calls};
      next = (next + calls + 1) % inputs_[s].sets(point);
      auto us = device_->time_calls(decoder(arm, s), what);
      if (!us.ok()) return us.error();
      if (spec.planted == Planted::slow)
        *us += waste_us(*us * calls * spec.planted_percent / 100) / calls;
      out.push_back(*us);
    }
    return out;
  }

  Expected<double> clock_ghz() override { return device_->clock_ghz(); }
  [[nodiscard]] int calls_per_sample(int point) const override {
    return calls_[static_cast<std::size_t>(point)];
  }
  [[nodiscard]] int index_sets(int point) const override {
    int least = inputs_[0].sets(point);
    for (const StreamInputs& inputs : inputs_) least = std::min(least, inputs.sets(point));
    return least;
  }
  [[nodiscard]] double sample_us(int point) const override {
    return sample_us_[static_cast<std::size_t>(point)];
  }
  [[nodiscard]] double gates_estimate_s() const override {
    double keys = 0;
    for (const PointSpec& p : run_.points) {
      for (const Stream& s : run_.streams) {
        for (const int context : p.batches[0].contexts) {
          keys += main_length(s, context) + extra_length(s, context);
        }
      }
    }
    // The double reference dominates: about 2 ns a key, head and dimension pair on one 2 GHz core.
    constexpr double k_reference_s_per_key_head = 1.2e-6;
    return keys * run_.heads * k_reference_s_per_key_head / reference_threads();
  }

 private:
  Status make_decoders() {
    auto options = options_for(run_);
    if (!options.ok()) return options.error();
    for (const ArmSpec& arm : run_.arms) {
      const auto overrides = parse_plan_overrides(arm.plan);
      if (!overrides.ok()) return bad_input("arm " + arm.name + ": " + overrides.error().message);
      overrides_.push_back(*overrides);
      options->overrides = *overrides;
      decoders_.emplace_back();
      for (const Stream& s : run_.streams) {
        ProblemSpec spec;
        spec.format = run_.format;
        spec.heads = run_.heads;
        spec.main_width = s.main_width;
        spec.extra_width = s.extra_width;
        spec.rows_max = run_.rows_max();
        auto decoder = Decoder::create(spec, *options);
        if (!decoder.ok()) {
          return Error{decoder.error().kind,
                       "arm " + arm.name + ", stream " + s.name + ": " + decoder.error().message};
        }
        options->backend = decoder->backend();  // what auto chose once holds for every arm
        decoders_.back().push_back(std::move(*decoder));
      }
    }
    return {};
  }

  // How many calls make a sample of about sample_us_min at this point, by the incumbent.
  Status calibrate(int point) {
    constexpr int k_probes = 3;
    double best_us = 1e300;
    for (int probe = 0; probe < k_probes; ++probe) {
      const auto us = measure(0, point, 0);
      if (!us.ok()) return us.error();
      double sum = 0;
      for (const double u : *us) sum += u;
      best_us = std::min(best_us, sum);
    }
    const auto p = static_cast<std::size_t>(point);
    calls_[p] = static_cast<int>(std::clamp(std::ceil(run_.sample_us_min / best_us), 1.0,
                                            static_cast<double>(k_calls_per_sample_max)));
    sample_us_.push_back(best_us * (calls_[p] > 1 ? calls_[p] + 1 : 1));
    return {};
  }

  // Spins for that long; the time that really passed.
  static double waste_us(double us) {
    const measure::Stopwatch watch;
    while (watch.elapsed_us() < us) {
    }
    return watch.elapsed_us();
  }

  static int reference_threads() {
    constexpr int k_threads_max = 64;
    return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, k_threads_max);
  }

  [[nodiscard]] Decoder& decoder(int arm, std::size_t stream) {
    return decoders_[static_cast<std::size_t>(arm)][stream];
  }

  Status gate_arm(int arm, int point, std::size_t stream, const ReferenceResult& reference,
                  std::vector<GateResult>& results);

  RunSpec run_;
  std::vector<PlanOverrides> overrides_;
  std::vector<std::vector<Decoder>> decoders_;  // [arm][stream]
  std::vector<StreamInputs> inputs_;
  std::unique_ptr<DecodeDevice> device_;  // after inputs_: it points into them
  std::vector<int> next_set_;             // [stream][point]
  std::vector<int> calls_;
  std::vector<double> sample_us_;
};

Status DecodeExecutor::gate_arm(int arm, int point, std::size_t stream,
                                const ReferenceResult& reference,
                                std::vector<GateResult>& results) {
  Decoder& decode = decoder(arm, stream);
  const ProblemSpec& spec = inputs_[stream].spec();
  const DecodeCall call = inputs_[stream].call(point, 0, 0);
  PlantedFault fault(run_.arms[static_cast<std::size_t>(arm)].planted, spec);
  const RunCall run = [&](const DecodeCall& c) {
    return fault.execute(c, [&](const DecodeCall& inner) {
      return device_->run_host(decode, static_cast<int>(stream), inner);
    });
  };
  const auto record = [&](const char* gate, const Expected<GateOutcome>& outcome) -> Status {
    if (!outcome.ok()) return outcome.error();
    results.push_back({arm, point, run_.streams[stream].name, gate, outcome->passed, outcome->worst,
                       outcome->detail});
    return {};
  };
  const bool is_exact = decode.plan_for(call.rows).mode == SplitMode::exact;
  if (run_.gates.invariance && is_exact) {
    if (Status s = record("invariance", invariance_gate(spec, call, run)); !s.ok()) return s;
  }
  if (run_.gates.repeat) {
    if (Status s = record("repeat", repeat_gate(spec, call, run)); !s.ok()) return s;
  }
  if (run_.gates.accuracy) {
    return record("accuracy", accuracy_gate(spec, call, reference, run));
  }
  return {};
}

Expected<std::vector<GateResult>> DecodeExecutor::run_gates(int point, std::span<const int> arms) {
  std::vector<GateResult> results;
  for (std::size_t s = 0; s < run_.streams.size(); ++s) {
    ReferenceResult reference;
    if (run_.gates.accuracy) {
      reference =
          parallel_reference(inputs_[s].spec(), inputs_[s].call(point, 0, 0), reference_threads());
    }
    for (const int arm : arms) {
      if (Status status = gate_arm(arm, point, s, reference, results); !status.ok()) {
        return status.error();
      }
    }
  }
  return results;
}

}  // namespace

Expected<std::unique_ptr<ArmExecutor>> make_decode_executor(const RunSpec& run) {
  SPLITWAVE_CHECK(!run.arms.empty() && !run.points.empty() && !run.streams.empty(),
                  "an unresolved run");
  auto executor = std::make_unique<DecodeExecutor>(run);
  if (Status status = executor->prepare(); !status.ok()) return status.error();
  return std::unique_ptr<ArmExecutor>(std::move(executor));
}

}  // namespace splitwave::experiment
