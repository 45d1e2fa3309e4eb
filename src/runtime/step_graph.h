// One decode step as a graph of nodes with declared byte ranges. Owns StepGraph: what the engine
// executes in order on the CPU and captures on CUDA, and what the hazard checker proves. Plain
// data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace splitwave {

// What may happen to a buffer's bytes between replays of a graph.
enum class BufferKind : std::uint8_t {
  scratch,   // dead at the end of a replay; buckets may share it
  state,     // carried from replay to replay: KV pools, compressor rings
  constant,  // written before the first replay only: weights
  io,        // written and read by the host between replays
};

// A named range of an arena. Two buffers may share bytes; the checker says whether that is safe.
struct Buffer {
  std::string name;
  std::string arena;
  std::int64_t offset_bytes = 0;
  std::int64_t bytes = 0;
  BufferKind kind = BufferKind::scratch;
};

inline constexpr int k_no_producer = -1;

// Bytes [begin, end) of a buffer, relative to it. producer: the node whose value a read expects;
// k_no_producer for values from before the replay. Writes leave it unset.
struct Access {
  int buffer = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  int producer = k_no_producer;
};

struct GraphNode {
  std::string name;
  int stream = 0;
  // Programmatic edges into this node order it only if all its CTAs wait for the grid dependency
  // before their first global access.
  bool waits_for_grid = true;
  std::vector<Access> reads;
  std::vector<Access> writes;
};

struct GraphEdge {
  int from = 0;
  int to = 0;
  bool is_programmatic = false;  // programmatic dependent launch
};

struct StepGraph {
  std::string name;  // the bucket
  std::vector<Buffer> buffers;
  std::vector<GraphNode> nodes;
  std::vector<GraphEdge> edges;
};

}  // namespace splitwave
