// The protocol of the CPU bench.
#include "bench/cpu_bench.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "formats/bf16.h"
#include "formats/synthetic.h"
#include "kernels/cpu/decode_kernels.h"
#include "kernels/cpu/worker_pool.h"
#include "measure/host_timer.h"
#include "measure/interleave.h"
#include "stats/quantiles.h"

namespace splitwave::bench {
namespace {

constexpr int k_batch_max = 1024;
constexpr int k_rounds_default = 24;
// A visit times this long at least: a shorter one is at the mercy of one interrupt.
constexpr double k_visit_us_min = 2000;
// The rows that the calls rotate over: 48 MB of V4-Flash KV rows exceed a core's share of any
// last-level cache, so that each call reads rows that its predecessors did not.
constexpr int k_rotation_rows = 128;

enum Arm { k_ours, k_peak, k_peer, k_products };

// One call's worth of rows out of a larger problem.
DecodeCall slice(const DecodeCall& all, int first, int rows) {
  DecodeCall call = all;
  call.rows = rows;
  call.q += first * all.q_row_stride;
  call.out += first * all.out_row_stride;
  call.lse += first * all.lse_row_stride;
  call.main_list.slots += first * all.main_list.row_stride;
  if (call.extra_list.slots != nullptr) {
    call.extra_list.slots += first * all.extra_list.row_stride;
  }
  return call;
}

SyntheticOptions problem_options(const Shape& shape, int rows) {
  SyntheticOptions options;
  options.spec.format = shape.format;
  options.spec.heads = shape.heads;
  options.spec.main_width = shape.main_width;
  options.spec.extra_width = shape.extra_width;
  options.rows = rows;
  options.main_cache.page_size = shape.main_page_size;
  options.extra_cache.page_size = shape.extra_page_size;
  options.main_cache.placement = Placement::scattered;
  options.extra_cache.placement = Placement::scattered;
  options.sink = SinkKind::finite;
  return options;
}

class ClockWatch {
 public:
  explicit ClockWatch(BenchClock clock) : clock_(clock), start_ns_(now_ns()) {}
  [[nodiscard]] double elapsed_us() const {
    return static_cast<double>(now_ns() - start_ns_) * 1e-3;
  }

 private:
  [[nodiscard]] std::int64_t now_ns() const {
    return clock_ == BenchClock::wall ? measure::monotonic_ns() : measure::thread_cpu_ns();
  }
  BenchClock clock_;
  std::int64_t start_ns_;
};

double copy_rate_gbps(cpu::WorkerPool& pool, BenchClock clock) {
  constexpr std::size_t k_bytes = std::size_t{128} << 20;  // each way: beyond the caches
  std::vector<char> from(k_bytes, 1);
  std::vector<char> to(k_bytes, 2);
  const std::size_t share = k_bytes / static_cast<std::size_t>(pool.threads());
  double best = 0;
  for (int trial = 0; trial < 5; ++trial) {
    const ClockWatch watch(clock);
    pool.run(pool.threads(), [&](int worker) {
      const std::size_t at = share * static_cast<std::size_t>(worker);
      std::memcpy(to.data() + at, from.data() + at, share);
    });
    const double moved = 2.0 * static_cast<double>(share) * pool.threads();
    best = std::max(best, moved / (1e3 * watch.elapsed_us()));
  }
  return best;
}

// All threads at once: cores that share execution units or a power budget must not each claim all.
double peak_rate_gflops(cpu::WorkerPool& pool, const cpu::DecodeKernels& kernels,
                        BenchClock clock) {
  // As long as a visit of the other arms (2 ms at 2 GHz), after an untimed turn: in a short window
  // the threads' waking and the clock's ramp count, and the "peak" falls below what products reach.
  constexpr std::int64_t k_iterations_untimed = 40'000;
  constexpr std::int64_t k_iterations = 400'000;
  std::vector<double> flops(static_cast<std::size_t>(pool.threads()));
  const auto run = [&](std::int64_t iterations) {
    pool.run(pool.threads(), [&](int worker) {
      flops[static_cast<std::size_t>(worker)] = kernels.multiply_add_loop(iterations);
    });
  };
  run(k_iterations_untimed);
  const ClockWatch watch(clock);
  run(k_iterations);
  return std::accumulate(flops.begin(), flops.end(), 0.0) / (1e3 * watch.elapsed_us());
}

const cpu::DecodeKernels* kernels_of(const std::string& isa) {
  const cpu::KernelList& list = cpu::runnable_kernels();
  for (int i = 0; i < list.count; ++i) {
    if (isa == list.tables[i]->isa) return list.tables[i];
  }
  return list.tables[0];
}

// Everything that a run needs, made once.
class Run {
 public:
  Run(const CpuBenchOptions& options, Decoder decoder, std::unique_ptr<Peer> peer)
      : options_(options),
        decoder_(std::move(decoder)),
        peer_(std::move(peer)),
        rows_(std::max(k_rotation_rows, *std::max_element(options.batches.begin(),
                                                          options.batches.end()))),
        problem_(problem_options(options.shape, rows_)),
        pool_(decoder_.device().sm_count),
        kernels_(*kernels_of(decoder_.traits_for(options.batches.front()).isa)) {}

  Expected<CpuBenchResult> measure_all(const std::function<void(int, int)>& progress);

 private:
  [[nodiscard]] DecodeCall next_call(int batch) {
    const DecodeCall& all = problem_.call();
    first_ = first_ + batch > rows_ ? 0 : first_;
    const DecodeCall call = slice(all, first_, batch);
    first_ += batch;
    return call;
  }
  Status choose_peers(CpuBenchResult& result);
  [[nodiscard]] double difference(int batch);
  Expected<double> visit(int batch, int arm);
  void fill_point(const measure::RoundTable& table, int at, CpuBenchResult& result) const;
  void find_faults(CpuBenchResult& result) const;

  const CpuBenchOptions& options_;
  Decoder decoder_;
  std::unique_ptr<Peer> peer_;
  int rows_;
  SyntheticProblem problem_;
  cpu::WorkerPool pool_;
  const cpu::DecodeKernels& kernels_;
  int first_ = 0;
  int chosen_batch_ = 0;  // what the peer's composition was last chosen for
};

// Microseconds of one call, or for the peak arm the microseconds of 1e9 operations.
Expected<double> Run::visit(int batch, int arm) {
  if (arm == k_peak) return 1e6 / peak_rate_gflops(pool_, kernels_, options_.clock);
  if (arm != k_ours && chosen_batch_ != batch) {
    if (const Status s = peer_->choose(next_call(batch)); !s) return s.error();
    chosen_batch_ = batch;
  }
  const auto once = [&]() -> Status {
    if (arm == k_products) {
      peer_->run_products(batch);
      return {};
    }
    const DecodeCall call = next_call(batch);
    if (arm == k_ours) return decoder_.run(call);
    peer_->run(call);
    return {};
  };
  if (const Status s = once(); !s) return s.error();  // wakes the threads, untimed
  const ClockWatch watch(options_.clock);
  int calls = 0;
  do {
    if (const Status s = once(); !s) return s.error();
    ++calls;
  } while (watch.elapsed_us() < k_visit_us_min);
  const double us = watch.elapsed_us() / calls;
  if (arm != k_ours) peer_->settle();
  return us;
}

// The peer must compute the same thing, or its time means nothing.
double Run::difference(int batch) {
  const DecodeCall call = slice(problem_.call(), 0, batch);
  const std::int64_t values = std::int64_t{options_.shape.heads} * k_value_dims;
  std::vector<float> ours;
  double worst = 0;
  if (!decoder_.run(call).ok()) return INFINITY;
  for (const bool is_peer : {false, true}) {
    if (is_peer) {
      problem_.poison_outputs();  // a peer that writes nothing must not pass
      peer_->run(call);
    }
    for (std::int64_t i = 0; i < values; ++i) {
      const std::uint16_t* const head = call.out + i / k_value_dims * call.out_head_stride;
      const float value = bf16_to_float(head[i % k_value_dims]);
      if (!is_peer) {
        ours.push_back(value);
      } else {
        const double gap = std::abs(double{value} - double{ours[static_cast<std::size_t>(i)]});
        worst = gap > worst || std::isnan(gap) ? gap : worst;
      }
    }
  }
  return worst;
}

Status Run::choose_peers(CpuBenchResult& result) {
  for (BenchPoint& point : result.points) {
    if (peer_ == nullptr) continue;
    if (const Status s = peer_->choose(next_call(point.batch)); !s) return s.error();
    chosen_batch_ = point.batch;
    point.peer_composition = peer_->name();
    point.peer_candidates = peer_->candidates();
    point.peer_max_difference = difference(point.batch);
    result.peer_name = "library";
    result.peer_version = peer_->version();
  }
  return {};
}

void Run::fill_point(const measure::RoundTable& table, int at, CpuBenchResult& result) const {
  BenchPoint& point = result.points[static_cast<std::size_t>(at)];
  const double flops = point.batch * options_.shape.flops_per_row();
  const std::vector<double> ours = table.times(at, k_ours);
  const std::vector<double> peak = table.times(at, k_peak);
  point.us_median = stats::quantile(ours, 0.5);
  point.us_p90 = stats::quantile(ours, 0.9);
  point.us_least = *std::min_element(ours.begin(), ours.end());
  std::vector<double> share;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    share.push_back(flops / (1e3 * ours[i]) / (1e6 / peak[i]));
  }
  point.peak_share = stats::quantile(share, 0.5);
  if (peer_ == nullptr) return;
  const std::vector<double> peer = table.times(at, k_peer);
  const std::vector<double> products = table.times(at, k_products);
  point.peer_us_median = stats::quantile(peer, 0.5);
  point.peer_us_least = *std::min_element(peer.begin(), peer.end());
  std::vector<double> ratio;
  for (std::size_t i = 0; i < ours.size(); ++i) ratio.push_back(peer[i] / ours[i]);
  point.peer_ratio = stats::quantile(ratio, 0.5);
  point.peer_ratio_low = stats::quantile(ratio, 0.25);
  point.peer_ratio_high = stats::quantile(ratio, 0.75);
  point.gemm_gflops_median = flops / (1e3 * stats::quantile(products, 0.5));
  point.gemm_gflops_best = flops / (1e3 * *std::min_element(products.begin(), products.end()));
  for (const PeerCandidate& c : point.peer_candidates) {
    point.gemm_gflops_best = std::max(point.gemm_gflops_best, c.gemm_gflops);
  }
}

void Run::find_faults(CpuBenchResult& result) const {
  double best = 0;
  for (const BenchPoint& point : result.points) {
    best = std::max(best, point.gemm_gflops_best);
    // Outputs are averages of |v| <= 0.4375; two bf16 roundings apart.
    if (peer_ != nullptr && !(point.peer_max_difference <= 4e-3)) {
      result.faults.push_back("batch " + std::to_string(point.batch) +
                              ": the peer's output differs by " +
                              std::to_string(point.peer_max_difference));
    }
  }
  result.gemm_efficiency = best / result.peak_gflops;
  if (best > result.peak_gflops) {
    result.faults.push_back("a GEMM ran at " + std::to_string(best) +
                            " GFLOP/s, above the measured peak of " +
                            std::to_string(result.peak_gflops) + ": the peak is not one");
  }
}

Expected<CpuBenchResult> Run::measure_all(const std::function<void(int, int)>& progress) {
  CpuBenchResult result;
  const VariantTraits& traits = decoder_.traits_for(options_.batches.front());
  result.isa = traits.isa;
  result.numerics_class = traits.numerics_class;
  result.threads = decoder_.device().sm_count;
  result.copy_gbps = copy_rate_gbps(pool_, options_.clock);
  for (const int batch : options_.batches) {
    BenchPoint point;
    point.batch = batch;
    point.variant = decoder_.plan_for(batch).variant;
    point.block_heads = decoder_.plan_for(batch).block_heads;
    result.points.push_back(point);
  }
  if (const Status s = choose_peers(result); !s) return s.error();
  measure::InterleaveOptions order;
  order.arms = peer_ == nullptr ? 2 : 4;
  order.points = static_cast<int>(options_.batches.size());
  order.rounds = options_.rounds > 0 ? options_.rounds : k_rounds_default;
  order.seed = options_.seed;
  double best_peak = 0;
  measure::InterleaveHooks hooks;
  hooks.measure = [&](const measure::Visit& visited) {
    Expected<double> us =
        visit(options_.batches[static_cast<std::size_t>(visited.point)], visited.arm);
    if (us && visited.arm == k_peak) best_peak = std::max(best_peak, 1e6 / *us);
    return us;
  };
  hooks.after_round = [&](int round, const measure::RoundTable&) {
    progress(round + 1, order.rounds);
    return true;
  };
  const measure::InterleaveResult measured = measure::measure_interleaved(order, hooks);
  if (measured.error) return *measured.error;
  result.rounds = measured.table.rounds();
  result.peak_gflops = best_peak;
  std::vector<double> peaks;
  for (int at = 0; at < order.points; ++at) {
    for (const double us : measured.table.times(at, k_peak)) peaks.push_back(1e6 / us);
    fill_point(measured.table, at, result);
    BenchPoint& point = result.points[static_cast<std::size_t>(at)];
    const double arithmetic_us =
        point.batch * options_.shape.flops_per_row() / (1e3 * result.peak_gflops);
    const double bytes_us =
        point.batch * options_.shape.bytes_per_row() / (1e3 * result.copy_gbps);
    point.floor_us = std::max(arithmetic_us, bytes_us);
    point.ratio_to_floor = point.us_median / point.floor_us;
  }
  result.peak_gflops_median = stats::quantile(peaks, 0.5);
  find_faults(result);
  return result;
}

}  // namespace

Expected<CpuBenchResult> run_cpu_bench(const CpuBenchOptions& options,
                                       const std::function<void(int, int)>& progress) {
  if (options.batches.empty()) return bad_input("--batch: at least one batch size is required");
  for (const int batch : options.batches) {
    if (batch < 1 || batch > k_batch_max) {
      return bad_input("--batch " + std::to_string(batch) + ": 1.." + std::to_string(k_batch_max) +
                       " is required");
    }
  }
  ProblemSpec spec = problem_options(options.shape, 1).spec;
  spec.rows_max = *std::max_element(options.batches.begin(), options.batches.end());
  DecoderOptions decoder_options;
  decoder_options.backend = Backend::cpu;
  decoder_options.threads = options.threads;
  decoder_options.overrides = options.overrides;
  Expected<Decoder> decoder = Decoder::create(spec, decoder_options);
  if (!decoder) return decoder.error();
  if (options.clock == BenchClock::cpu && decoder->device().sm_count != 1) {
    return bad_input("--clock cpu with " + std::to_string(decoder->device().sm_count) +
                     " threads: CPU time is the call's time on one thread only; set "
                     "SPLITWAVE_THREADS=1, or use --clock wall");
  }
  std::unique_ptr<Peer> peer;
  if (options.has_peer) {
    Expected<std::unique_ptr<Peer>> made =
        make_library_peer(options.shape, decoder->device().sm_count);
    if (!made) return made.error();
    peer = std::move(*made);
  }
  Run run(options, std::move(*decoder), std::move(peer));
  return run.measure_all(progress);
}

}  // namespace splitwave::bench
