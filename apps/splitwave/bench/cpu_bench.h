// `bench --backend cpu`: this project's decode and a peer, interleaved in one run with the
// machine's own peaks. Owns the protocol; prints nothing. Called by cmd_bench.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/peer.h"
#include "bench/shapes.h"
#include "splitwave/decoder.h"
#include "splitwave/status.h"

namespace splitwave::bench {

// What "us" counts. cpu: the calling thread's CPU time, on one thread only; it leaves out what
// other processes of a shared machine take, not their effect on caches, clocks and sibling threads.
enum class BenchClock : std::uint8_t { wall, cpu };

struct CpuBenchOptions {
  Shape shape;
  std::vector<int> batches;
  BenchClock clock = BenchClock::wall;
  bool has_peer = false;
  int rounds = 0;     // 0: chosen by batch, at least 10
  int threads = 0;    // 0: SPLITWAVE_THREADS, else all cores
  PlanOverrides overrides;
  std::uint64_t seed = 1;
};

struct BenchPoint {
  int batch = 0;
  std::string variant;
  int block_heads = 0;
  double us_median = 0;
  double us_p90 = 0;
  double us_least = 0;
  double floor_us = 0;        // the larger of arithmetic / peak_gflops and bytes / copy_gbps
  double ratio_to_floor = 0;  // us_median / floor_us
  double peak_share = 0;      // median over rounds of arithmetic / (time * the round's own peak)
  double peer_us_median = 0;  // 0: no peer
  double peer_us_least = 0;
  double peer_ratio = 0;      // median over rounds of peer time / our time
  double peer_ratio_low = 0;  // its quartiles over rounds
  double peer_ratio_high = 0;
  std::string peer_composition;
  double gemm_gflops_median = 0;  // the peer's two products alone
  double gemm_gflops_best = 0;
  double peer_max_difference = 0;  // largest |ours - peer's| over the outputs
  std::vector<PeerCandidate> peer_candidates;
};

struct CpuBenchResult {
  std::string isa;
  std::string numerics_class;
  int threads = 0;
  int rounds = 0;
  double peak_gflops = 0;  // the best of the run's multiply-add loops, all threads
  double peak_gflops_median = 0;
  double copy_gbps = 0;    // read plus written, all threads, beyond the last-level cache
  std::string peer_name;
  std::string peer_version;
  double gemm_efficiency = 0;  // best GEMM rate of the run / peak_gflops
  std::vector<BenchPoint> points;
  std::vector<std::string> faults;  // what makes the run not trustworthy
};

// progress is called after each round with (done, total).
[[nodiscard]] Expected<CpuBenchResult> run_cpu_bench(
    const CpuBenchOptions& options, const std::function<void(int, int)>& progress);

}  // namespace splitwave::bench
