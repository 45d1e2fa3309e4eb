// The proof: order by closure of the edges, conflicts by a sweep over each arena's bytes, values by
// reaching definitions. Unrolling the graph twice is implicit: every node of one replay precedes
// every node of the next, so only a read that this replay has not written can see the last replay.
#include "runtime/graph_hazards.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"

namespace splitwave {
namespace {

// Who precedes whom, as one bit a pair.
class Order {
 public:
  explicit Order(int nodes)
      : words_((static_cast<std::size_t>(nodes) + 63) / 64),
        ancestors_(words_ * static_cast<std::size_t>(nodes)) {}

  void add_ancestor(int node, int ancestor) {
    const std::size_t row = static_cast<std::size_t>(node) * words_;
    const std::size_t from = static_cast<std::size_t>(ancestor) * words_;
    for (std::size_t w = 0; w < words_; ++w) ancestors_[row + w] |= ancestors_[from + w];
    ancestors_[row + static_cast<std::size_t>(ancestor) / 64] |= std::uint64_t{1}
                                                                 << (ancestor % 64);
  }
  [[nodiscard]] bool precedes(int a, int b) const {
    const std::size_t row = static_cast<std::size_t>(b) * words_;
    return ((ancestors_[row + static_cast<std::size_t>(a) / 64] >> (a % 64)) & 1) != 0;
  }
  [[nodiscard]] bool ordered(int a, int b) const { return precedes(a, b) || precedes(b, a); }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> ancestors_;
};

// One access in arena bytes.
struct Touch {
  int node = 0;
  int buffer = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool is_write = false;
  int producer = k_no_producer;
};

std::string node_label(const StepGraph& graph, int node) {
  return node == k_no_producer ? "nothing in this replay"
                               : graph.nodes[static_cast<std::size_t>(node)].name;
}

const Buffer& buffer_of(const StepGraph& graph, const Touch& touch) {
  return graph.buffers[static_cast<std::size_t>(touch.buffer)];
}

Status check_access(const StepGraph& graph, const GraphNode& node, const Access& access) {
  const std::string where = "graph " + graph.name + ", node " + node.name + ": ";
  if (access.buffer < 0 || access.buffer >= static_cast<int>(graph.buffers.size())) {
    return bad_input(where + "buffer index " + std::to_string(access.buffer) + " of " +
                     std::to_string(graph.buffers.size()));
  }
  const Buffer& buffer = graph.buffers[static_cast<std::size_t>(access.buffer)];
  if (access.begin < 0 || access.begin > access.end || access.end > buffer.bytes) {
    return bad_input(where + "bytes [" + std::to_string(access.begin) + ", " +
                     std::to_string(access.end) + ") outside buffer " + buffer.name + " of " +
                     std::to_string(buffer.bytes) + " bytes");
  }
  if (access.producer < k_no_producer || access.producer >= static_cast<int>(graph.nodes.size())) {
    return bad_input(where + "producer index " + std::to_string(access.producer));
  }
  return {};
}

Status check_shape(const StepGraph& graph) {
  if (graph.nodes.size() > k_graph_nodes_max) {
    return bad_input("graph " + graph.name + ": " + std::to_string(graph.nodes.size()) +
                     " nodes, at most " + std::to_string(k_graph_nodes_max));
  }
  constexpr std::int64_t k_arena_bytes_max = std::int64_t{1} << 60;
  for (const Buffer& buffer : graph.buffers) {
    if (buffer.bytes < 0 || buffer.offset_bytes < 0 || buffer.bytes > k_arena_bytes_max ||
        buffer.offset_bytes > k_arena_bytes_max) {
      return bad_input("graph " + graph.name + ", buffer " + buffer.name + ": offset " +
                       std::to_string(buffer.offset_bytes) + ", bytes " +
                       std::to_string(buffer.bytes) + ", need 0..2^60");
    }
  }
  for (const GraphNode& node : graph.nodes) {
    for (const auto* accesses : {&node.reads, &node.writes}) {
      for (const Access& access : *accesses) {
        if (auto status = check_access(graph, node, access); !status.ok()) return status;
      }
    }
  }
  const int nodes = static_cast<int>(graph.nodes.size());
  for (const GraphEdge& edge : graph.edges) {
    if (edge.from < 0 || edge.from >= nodes || edge.to < 0 || edge.to >= nodes) {
      return bad_input("graph " + graph.name + ": edge " + std::to_string(edge.from) + " -> " +
                       std::to_string(edge.to) + " of " + std::to_string(nodes) + " nodes");
    }
  }
  return {};
}

// The closure over edges that order: full ones, and programmatic ones into a node that waits. A
// node that does not wait may finish before its programmatic predecessor, so nothing passes through
// it.
Expected<Order> close_order(const StepGraph& graph) {
  const int nodes = static_cast<int>(graph.nodes.size());
  std::vector<std::vector<const GraphEdge*>> out(graph.nodes.size());
  std::vector<int> missing(graph.nodes.size());
  for (const GraphEdge& edge : graph.edges) {
    out[static_cast<std::size_t>(edge.from)].push_back(&edge);
    ++missing[static_cast<std::size_t>(edge.to)];
  }
  Order order(nodes);
  std::vector<int> ready;
  for (int n = 0; n < nodes; ++n) {
    if (missing[static_cast<std::size_t>(n)] == 0) ready.push_back(n);
  }
  int visited = 0;
  while (!ready.empty()) {
    const int node = ready.back();
    ready.pop_back();
    ++visited;
    for (const GraphEdge* edge : out[static_cast<std::size_t>(node)]) {
      const auto to = static_cast<std::size_t>(edge->to);
      if (!edge->is_programmatic || graph.nodes[to].waits_for_grid)
        order.add_ancestor(edge->to, node);
      if (--missing[to] == 0) ready.push_back(edge->to);
    }
  }
  if (visited != nodes) {
    for (int n = 0; n < nodes; ++n) {
      if (missing[static_cast<std::size_t>(n)] > 0) {
        return bad_input("graph " + graph.name + ": the edges form a cycle through node " +
                         graph.nodes[static_cast<std::size_t>(n)].name);
      }
    }
  }
  return order;
}

class GraphCheck {
 public:
  GraphCheck(const StepGraph& graph, const Order& order, std::vector<Hazard>& hazards, int most)
      : graph_(graph), order_(order), hazards_(hazards), most_(static_cast<std::size_t>(most)) {}

  void run() {
    for (auto& [arena, touches] : touches_by_arena()) {
      check_conflicts(touches);
      check_values(touches);
    }
  }

 private:
  std::map<std::string, std::vector<Touch>> touches_by_arena() const {
    std::map<std::string, std::vector<Touch>> by_arena;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const auto add = [&](const Access& access, bool is_write) {
        if (access.begin == access.end) return;
        const Buffer& buffer = graph_.buffers[static_cast<std::size_t>(access.buffer)];
        by_arena[buffer.arena].push_back(
            {static_cast<int>(n), access.buffer, buffer.offset_bytes + access.begin,
             buffer.offset_bytes + access.end, is_write, access.producer});
      };
      for (const Access& access : graph_.nodes[n].reads) add(access, false);
      for (const Access& access : graph_.nodes[n].writes) add(access, true);
    }
    for (auto& [arena, touches] : by_arena) {
      std::sort(touches.begin(), touches.end(),
                [](const Touch& a, const Touch& b) { return a.begin < b.begin; });
    }
    return by_arena;
  }

  void report(HazardKind kind, int first, int second, const Touch& a, const Touch* b,
              std::int64_t begin, std::int64_t end, const std::string& explanation) {
    if (hazards_.size() >= most_) return;
    Hazard hazard;
    hazard.kind = kind;
    hazard.graph = graph_.name;
    hazard.first = node_label(graph_, first);
    if (second != k_no_producer) hazard.second = node_label(graph_, second);
    hazard.buffer = buffer_of(graph_, a).name;
    if (b != nullptr && b->buffer != a.buffer) hazard.buffer += " / " + buffer_of(graph_, *b).name;
    hazard.arena = buffer_of(graph_, a).arena;
    hazard.begin = begin;
    hazard.end = end;
    hazard.explanation = explanation;
    hazards_.push_back(std::move(hazard));
  }

  // (a) Sweep by begin; a write meets every live access, a read meets live writes.
  void check_conflicts(const std::vector<Touch>& touches) {
    std::vector<const Touch*> live_reads, live_writes;
    for (const Touch& touch : touches) {
      const auto is_over = [&](const Touch* t) { return t->end <= touch.begin; };
      std::erase_if(live_reads, is_over);
      std::erase_if(live_writes, is_over);
      for (const Touch* write : live_writes) check_pair(*write, touch);
      if (touch.is_write) {
        for (const Touch* read : live_reads) check_pair(*read, touch);
      }
      (touch.is_write ? live_writes : live_reads).push_back(&touch);
    }
  }

  void check_pair(const Touch& a, const Touch& b) {
    if (a.node == b.node || order_.ordered(a.node, b.node)) return;
    const std::string what = a.is_write && b.is_write ? "both write"
                             : a.is_write             ? "the first writes and the second reads"
                                                      : "the first reads and the second writes";
    report(HazardKind::unordered, a.node, b.node, a, &b, std::max(a.begin, b.begin),
           std::min(a.end, b.end), what + ", and no path of completing edges orders them");
  }

  // (b) and (c): each read, cut where the set of writers changes.
  void check_values(const std::vector<Touch>& touches) {
    std::vector<const Touch*> writes;
    for (const Touch& touch : touches) {
      if (touch.is_write) writes.push_back(&touch);
    }
    for (const Touch& read : touches) {
      if (read.is_write) continue;
      std::vector<const Touch*> earlier;  // writes that overlap the read and precede it
      std::vector<std::int64_t> cuts = {read.begin, read.end};
      for (const Touch* write : writes) {
        if (write->begin >= read.end) break;
        if (write->end <= read.begin || !order_.precedes(write->node, read.node)) continue;
        earlier.push_back(write);
        cuts.push_back(std::max(write->begin, read.begin));
        cuts.push_back(std::min(write->end, read.end));
      }
      std::sort(cuts.begin(), cuts.end());
      cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
      check_segments(read, earlier, cuts);
    }
  }

  void check_segments(const Touch& read, const std::vector<const Touch*>& earlier,
                      const std::vector<std::int64_t>& cuts) {
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      std::vector<const Touch*> covering;
      for (const Touch* write : earlier) {
        if (write->begin <= cuts[i] && write->end >= cuts[i + 1]) covering.push_back(write);
      }
      std::vector<const Touch*> latest;
      for (const Touch* write : covering) {
        const bool is_hidden = std::any_of(
            covering.begin(), covering.end(),
            [&](const Touch* later) { return order_.precedes(write->node, later->node); });
        if (!is_hidden) latest.push_back(write);
      }
      judge(read, latest, cuts[i], cuts[i + 1]);
    }
  }

  void judge(const Touch& read, const std::vector<const Touch*>& latest, std::int64_t begin,
             std::int64_t end) {
    if (latest.empty()) {
      if (read.producer != k_no_producer) {
        report(HazardKind::wrong_producer, read.producer, read.node, read, nullptr, begin, end,
               "the declared producer does not write these bytes before the read");
      } else if (buffer_of(graph_, read).kind == BufferKind::scratch) {
        report(HazardKind::stale_scratch, read.node, k_no_producer, read, nullptr, begin, end,
               "scratch is read before this replay writes it: the value would survive from the "
               "replay before");
      }
      return;
    }
    for (const Touch* write : latest) {
      if (write->node == read.producer) continue;
      report(HazardKind::wrong_producer, write->node, read.node, *write, &read, begin, end,
             "the read declares " + node_label(graph_, read.producer) +
                 " as its producer, but the first node wrote these bytes last");
    }
  }

  const StepGraph& graph_;
  const Order& order_;
  std::vector<Hazard>& hazards_;
  std::size_t most_;
};

bool is_same_buffer(const Buffer& a, const Buffer& b) {
  return a.name == b.name && a.offset_bytes == b.offset_bytes && a.bytes == b.bytes &&
         a.kind == b.kind;
}

// (d) Bytes that outlive a replay belong to one buffer: only scratch may share bytes with anything
// else, in the same bucket or in another.
void check_shared_state(std::span<const StepGraph> graphs, std::vector<Hazard>& hazards,
                        std::size_t most) {
  struct Placed {
    const StepGraph* graph;
    const Buffer* buffer;
  };
  std::map<std::string, std::vector<Placed>> by_arena;
  for (const StepGraph& graph : graphs) {
    for (const Buffer& buffer : graph.buffers) {
      if (buffer.bytes > 0) by_arena[buffer.arena].push_back({&graph, &buffer});
    }
  }
  for (auto& [arena, placed] : by_arena) {
    std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
      return a.buffer->offset_bytes < b.buffer->offset_bytes;
    });
    for (std::size_t i = 0; i < placed.size(); ++i) {
      const Buffer& a = *placed[i].buffer;
      for (std::size_t j = i + 1; j < placed.size(); ++j) {
        const Buffer& b = *placed[j].buffer;
        if (b.offset_bytes >= a.offset_bytes + a.bytes) break;
        const bool both_scratch = a.kind == BufferKind::scratch && b.kind == BufferKind::scratch;
        const bool is_shared_on_purpose =
            placed[i].graph != placed[j].graph && is_same_buffer(a, b);
        if (both_scratch || is_shared_on_purpose || hazards.size() >= most) continue;
        Hazard hazard;
        hazard.kind = HazardKind::shared_state;
        hazard.graph = placed[i].graph == placed[j].graph
                           ? placed[i].graph->name
                           : placed[i].graph->name + ", " + placed[j].graph->name;
        hazard.first = a.name;
        hazard.second = b.name;
        hazard.buffer = a.name + " / " + b.name;
        hazard.arena = arena;
        hazard.begin = b.offset_bytes;
        hazard.end = std::min(a.offset_bytes + a.bytes, b.offset_bytes + b.bytes);
        hazard.explanation = "bytes that outlive a replay are shared with another buffer";
        hazards.push_back(std::move(hazard));
      }
    }
  }
}

}  // namespace

const char* name_of(HazardKind kind) {
  switch (kind) {
    case HazardKind::unordered:
      return "unordered";
    case HazardKind::wrong_producer:
      return "wrong_producer";
    case HazardKind::stale_scratch:
      return "stale_scratch";
    case HazardKind::shared_state:
      return "shared_state";
  }
  SPLITWAVE_CHECK(false, "unknown hazard kind");
}

Expected<std::vector<Hazard>> check_graphs(std::span<const StepGraph> graphs, int hazards_max) {
  std::vector<Hazard> hazards;
  for (const StepGraph& graph : graphs) {
    if (auto status = check_shape(graph); !status.ok()) return status.error();
    auto order = close_order(graph);
    if (!order) return order.error();
    GraphCheck(graph, *order, hazards, hazards_max).run();
  }
  check_shared_state(graphs, hazards, static_cast<std::size_t>(hazards_max));
  return hazards;
}

}  // namespace splitwave
