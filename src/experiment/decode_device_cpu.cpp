// Host memory, a monotonic clock. The last-level cache's size is the system's word.
#include <unistd.h>

#include <algorithm>

#include "experiment/decode_device.h"
#include "experiment/host_clock.h"
#include "measure/host_timer.h"

namespace splitwave::experiment {
namespace {

constexpr std::int64_t k_cache_bytes_default = 32 << 20;  // where the system does not tell

class CpuDevice final : public DecodeDevice {
 public:
  [[nodiscard]] std::int64_t cache_bytes() const override {
    const std::int64_t l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
    const std::int64_t l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return std::max({l3, l2, l3 <= 0 ? k_cache_bytes_default : std::int64_t{0}});
  }

  Status add_stream(const StreamInputs& inputs) override {
    inputs_.push_back(&inputs);
    outputs_.emplace_back();
    const ProblemSpec& spec = inputs.spec();
    outputs_.back().resize(static_cast<std::size_t>(spec.rows_max) *
                           static_cast<std::size_t>(spec.heads) * k_value_dims);
    return {};
  }

  Status run_host(Decoder& decoder, int, const DecodeCall& call) override {
    return decoder.run(call);
  }

  Expected<double> time_calls(Decoder& decoder, const TimedCalls& what) override {
    const auto stream = static_cast<std::size_t>(what.stream);
    const StreamInputs& inputs = *inputs_[stream];
    const int sets = inputs.sets(what.point);
    const auto call_of = [&](int i) {
      DecodeCall call = inputs.call(what.point, what.batch, (what.first_set + i) % sets);
      call.out = outputs_[stream].data();
      call.out_head_stride = k_value_dims;
      call.out_row_stride = std::int64_t{inputs.spec().heads} * k_value_dims;
      return call;
    };
    // Where a sample is one long call, waking the workers is lost in it and the untimed call is
    // not.
    if (what.calls > 1) {
      if (Status status = decoder.run(call_of(0)); !status.ok()) return status.error();
    }
    const measure::Stopwatch watch;
    for (int i = 1; i <= what.calls; ++i) {
      if (Status status = decoder.run(call_of(i)); !status.ok()) return status.error();
    }
    return watch.elapsed_us() / what.calls;
  }

  Expected<double> clock_ghz() override { return host_clock_ghz(); }
  [[nodiscard]] std::string clock_source() const override {
    return "timed chain of dependent multiply-adds, 4 cycles a step, fastest of 20";
  }

 private:
  std::vector<const StreamInputs*> inputs_;
  std::vector<std::vector<std::uint16_t>> outputs_;  // one a stream
};

}  // namespace

Expected<std::unique_ptr<DecodeDevice>> make_cpu_device(Execution execution) {
  if (execution == Execution::graph) {
    return bad_input("workload.execution: the CPU backend has no graphs: use \"eager\"");
  }
  return std::unique_ptr<DecodeDevice>(std::make_unique<CpuDevice>());
}

}  // namespace splitwave::experiment
