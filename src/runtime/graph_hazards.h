// Proves step graphs free of memory hazards, or names each one. Owns check_graphs. It trusts the
// declared ranges (tests hold them to account) and nothing else: not the planner that placed the
// buffers, not the streams. Called at every capture in debug builds, by tests on all buckets and by
// `splitwave graph check`. Cost: nodes * edges / 64 for the closure, plus the overlapping pairs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/step_graph.h"
#include "splitwave/status.h"

namespace splitwave {

enum class HazardKind : std::uint8_t {
  unordered,       // (a) two conflicting accesses that no edge path orders
  wrong_producer,  // (b) a read whose latest writer is not its declared producer
  stale_scratch,   // (c) a read of scratch that this replay has not written
  shared_state,    // (d) two buckets share bytes that are not scratch in both
};

struct Hazard {
  HazardKind kind = HazardKind::unordered;
  std::string graph;  // the bucket; for shared_state "a, b"
  std::string first,
      second;          // the two nodes; for stale_scratch only first; for shared_state buffers
  std::string buffer;  // the buffer accessed by first (and the aliased one, "x / y", if two)
  std::string arena;
  std::int64_t begin = 0;  // the bytes in the arena, [begin, end)
  std::int64_t end = 0;
  std::string explanation;
};

[[nodiscard]] const char* name_of(HazardKind kind);

inline constexpr int k_graph_nodes_max = 65536;

// Refuses a malformed graph: an index or range out of bounds, a cycle, too many nodes. A hazard is
// not an error. At most hazards_max hazards are returned.
[[nodiscard]] Expected<std::vector<Hazard>> check_graphs(std::span<const StepGraph> graphs,
                                                         int hazards_max = 1000);

}  // namespace splitwave
