// The operators' contract as cases. Owns their matrix: each case is one cell of the contract,
// builds its data in an arena, runs the reference on a copy and the backend on another, and
// compares: logits within their tolerance, everything else byte for byte, and what a call was not
// to write untouched. Used by `verify`, tests/ops and the GPU check; needs neither GoogleTest nor a
// GPU.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ops_arena.h"
#include "splitwave/ops.h"

namespace splitwave {

// Where the backend under test sees an arena. The CPU's is the arena itself.
class OpsMemory {
 public:
  virtual ~OpsMemory() = default;
  // Where the arena's bytes are now, for the backend; an upload for a device.
  [[nodiscard]] virtual Expected<std::uint8_t*> to_backend(OpsArena& arena) = 0;
  // Waits for the backend's work and brings the bytes back.
  [[nodiscard]] virtual Status from_backend(OpsArena& arena) = 0;
};
[[nodiscard]] std::unique_ptr<OpsMemory> make_host_memory();
// An environment error without a CUDA build or device.
[[nodiscard]] Expected<std::unique_ptr<OpsMemory>> make_device_memory(int device);

struct OpsTarget {
  OpsOptions options;  // backend: cpu or cuda
  OpsMemory* memory = nullptr;
};

struct OpsOutcome {
  std::string failure;  // empty: passed; else what differs, where, both values
  double worst = 0;     // logits: |error| / magnitude
};

struct OpsCase {
  std::string op;  // "indexer", "topk", "select", "cache_write", "compressor"
  std::vector<std::pair<std::string, std::string>> dimensions;
  std::function<OpsOutcome(const OpsTarget&)> run;
};

// quick: every value of every dimension at least once, lists up to 8,193; full: the products, rows
// of 65,536 keys, 262,144 and 2^20.
[[nodiscard]] std::vector<OpsCase> indexer_cases(bool full);
[[nodiscard]] std::vector<OpsCase> topk_cases(bool full);
[[nodiscard]] std::vector<OpsCase> select_cases(bool full);
[[nodiscard]] std::vector<OpsCase> cache_write_cases(bool full);
[[nodiscard]] std::vector<OpsCase> compressor_cases(bool full);
[[nodiscard]] std::vector<OpsCase> all_ops_cases(bool full);

// "op dim=value .." for messages.
[[nodiscard]] std::string describe(const OpsCase& one);

// ---- for the case files ---------------------------------------------------------------------

// Runs run(call at the backend's addresses) between an upload and a download.
template <class Call, class Run>
[[nodiscard]] std::string on_backend(const OpsTarget& target, OpsArena& arena, const Call& call,
                                     Run&& run) {
  Expected<std::uint8_t*> base = target.memory->to_backend(arena);
  if (!base) return base.error().message;
  if (const Status s = run(moved(call, arena.data(), *base)); !s) return s.error().message;
  const Status back = target.memory->from_backend(arena);
  return back ? std::string() : back.error().message;
}

// Empty, or the first byte at which two arenas of one layout differ.
[[nodiscard]] std::string first_difference(const OpsArena& got, const OpsArena& want);

// Seeded data of the cases: splitmix64.
class CaseRandom {
 public:
  explicit CaseRandom(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  std::uint64_t bits();
  int below(int n) { return static_cast<int>(bits() % static_cast<std::uint64_t>(n)); }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  float normal();
  std::vector<float> floats(std::size_t count, double scale = 1);
  std::vector<std::uint16_t> bf16s(std::size_t count, double scale = 1);

 private:
  std::uint64_t state_;
};

}  // namespace splitwave
