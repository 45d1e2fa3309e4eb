// A peer: what a user would build from libraries, timed beside this project in one run. Owns the
// interface; library_peer.cpp is the one peer of the CPU. Linked into the command line only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/shapes.h"
#include "splitwave/problem.h"
#include "splitwave/status.h"

namespace splitwave::bench {

// One way to compose the peer, and how fast its two matrix products alone are.
struct PeerCandidate {
  std::string name;       // "onednn-f32, one row a thread"
  double call_us = 0;     // least of a few calls of the whole composition
  double gemm_gflops = 0;  // its two products alone, operands in place, same threads
};

class Peer {
 public:
  virtual ~Peer() = default;
  [[nodiscard]] virtual std::string name() const = 0;     // of the chosen composition
  [[nodiscard]] virtual std::string version() const = 0;  // of its libraries
  // Tries every composition on this call and keeps the fastest for calls of this many rows.
  [[nodiscard]] virtual Status choose(const DecodeCall& call) = 0;
  [[nodiscard]] virtual const std::vector<PeerCandidate>& candidates() const = 0;
  // Writes call.out and call.lse like a decoder. Exactly the contract's dense case: every entry
  // valid, full lengths.
  virtual void run(const DecodeCall& call) = 0;
  // The two products of the same rows alone, as the chosen composition calls them.
  virtual void run_products(int rows) = 0;
  // Idle library threads may keep spinning; returns when they have gone to sleep.
  virtual void settle() = 0;
};

// Environment error when a library is missing, with the package that has it.
[[nodiscard]] Expected<std::unique_ptr<Peer>> make_library_peer(const Shape& shape, int threads);

}  // namespace splitwave::bench
