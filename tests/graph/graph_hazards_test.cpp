// The hazard checker: a clean step is proven clean; the source's aliasing bug and every other
// seeded hazard is named with its nodes, buffer and bytes; random graphs agree with a byte-wise
// brute force.
#include "runtime/graph_hazards.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace splitwave {
namespace {

// A decode step in small: the main stream projects and attends, a side stream runs the indexer,
// both join before attention. Node and buffer indices are named so that tests can break one thing.
enum Node { k_embed, k_project, k_indexer_quant, k_indexer_logits, k_topk, k_attend, k_output };
enum Buf { k_hidden, k_q, k_indexer_k, k_logits, k_slots, k_attended, k_kv_pool, k_tokens };

StepGraph clean_step() {
  StepGraph g;
  g.name = "bucket-64";
  g.buffers = {{"hidden", "pool", 0, 1024, BufferKind::scratch},
               {"q", "pool", 1024, 2048, BufferKind::scratch},
               {"indexer_k_bf16", "pool", 3072, 4096, BufferKind::scratch},
               {"logits", "pool", 7168, 512, BufferKind::scratch},
               {"slots", "pool", 7680, 256, BufferKind::scratch},
               {"attended", "pool", 7936, 2048, BufferKind::scratch},
               {"kv_pool", "kv", 0, 1 << 20, BufferKind::state},
               {"tokens", "io", 0, 256, BufferKind::io}};
  const auto whole = [&](int buffer, int producer = k_no_producer) {
    return Access{buffer, 0, g.buffers[static_cast<std::size_t>(buffer)].bytes, producer};
  };
  g.nodes = {
      {"embed", 0, true, {whole(k_tokens)}, {whole(k_hidden)}},
      {"project", 0, true, {whole(k_hidden, k_embed)}, {whole(k_q), whole(k_kv_pool)}},
      {"indexer_quant", 1, true, {whole(k_hidden, k_embed)}, {whole(k_indexer_k)}},
      {"indexer_logits", 1, true, {whole(k_indexer_k, k_indexer_quant)}, {whole(k_logits)}},
      {"topk", 1, true, {whole(k_logits, k_indexer_logits)}, {whole(k_slots)}},
      {"attend",
       0,
       true,
       {whole(k_q, k_project), whole(k_slots, k_topk), whole(k_kv_pool, k_project)},
       {whole(k_attended)}},
      {"output", 0, true, {whole(k_attended, k_attend)}, {whole(k_tokens)}},
  };
  g.edges = {
      {k_embed, k_project},       {k_embed, k_indexer_quant}, {k_indexer_quant, k_indexer_logits},
      {k_indexer_logits, k_topk}, {k_project, k_attend},      {k_topk, k_attend},
      {k_attend, k_output}};
  return g;
}

std::vector<Hazard> check(const StepGraph& graph) {
  auto hazards = check_graphs(std::span(&graph, 1));
  EXPECT_TRUE(hazards.ok()) << hazards.error().message;
  return *hazards;
}

TEST(GraphHazards, ProveACleanStepClean) {
  const auto hazards = check(clean_step());
  EXPECT_TRUE(hazards.empty()) << hazards[0].explanation;
}

// The source's bug: the indexer's bf16 read buffer on the side stream was given bytes of the
// captured pool that a main-stream tensor still used.
TEST(GraphHazards, FlagTheIndexerBufferAliasingAMainStreamTensor) {
  StepGraph g = clean_step();
  g.buffers[k_indexer_k].offset_bytes = 2048;  // overlaps the upper half of q
  const auto hazards = check(g);
  ASSERT_FALSE(hazards.empty());
  const auto it = std::find_if(hazards.begin(), hazards.end(), [](const Hazard& h) {
    return h.kind == HazardKind::unordered && h.first == "project" && h.second == "indexer_quant";
  });
  ASSERT_NE(it, hazards.end());
  EXPECT_EQ(it->buffer, "q / indexer_k_bf16");
  EXPECT_EQ(it->arena, "pool");
  EXPECT_EQ(it->begin, 2048);
  EXPECT_EQ(it->end, 3072);
}

TEST(GraphHazards, FlagADroppedDependency) {
  StepGraph g = clean_step();
  std::erase_if(g.edges, [](const GraphEdge& e) { return e.from == k_topk && e.to == k_attend; });
  const auto hazards = check(g);
  ASSERT_FALSE(hazards.empty());
  EXPECT_EQ(hazards[0].kind, HazardKind::unordered);
  EXPECT_EQ(std::set<std::string>({hazards[0].first, hazards[0].second}),
            (std::set<std::string>{"topk", "attend"}));
  EXPECT_EQ(hazards[0].buffer, "slots");
}

TEST(GraphHazards, FlagAnOrderedClobberBeforeTheLastReader) {
  StepGraph g = clean_step();
  g.buffers[k_attended].offset_bytes = 0;  // attend's output over hidden and q
  g.nodes.push_back({"late", 0, true, {{k_hidden, 0, 1024, k_embed}}, {}});
  g.edges.push_back({k_attend, 7});
  const auto hazards = check(g);
  ASSERT_EQ(hazards.size(), 1U);
  EXPECT_EQ(hazards[0].kind, HazardKind::wrong_producer);
  EXPECT_EQ(hazards[0].first, "attend");
  EXPECT_EQ(hazards[0].second, "late");
  EXPECT_EQ(hazards[0].buffer, "attended / hidden");
  EXPECT_EQ(hazards[0].begin, 0);
  EXPECT_EQ(hazards[0].end, 1024);
}

TEST(GraphHazards, FlagScratchThatSurvivesAReplay) {
  StepGraph g = clean_step();
  g.nodes[k_embed].writes[0].end = 1000;  // the last 24 bytes of hidden are last replay's
  g.nodes[k_project].reads[0].end = 1000;
  const auto hazards = check(g);
  ASSERT_EQ(hazards.size(), 1U) << "the indexer still reads all of hidden";
  EXPECT_EQ(hazards[0].kind, HazardKind::wrong_producer);
  EXPECT_EQ(hazards[0].begin, 1000);
  g.nodes[k_indexer_quant].reads = {{k_hidden, 0, 1000, k_embed},
                                    {k_hidden, 1000, 1024, k_no_producer}};
  const auto stale = check(g);
  ASSERT_EQ(stale.size(), 1U);
  EXPECT_EQ(stale[0].kind, HazardKind::stale_scratch);
  EXPECT_EQ(stale[0].first, "indexer_quant");
  EXPECT_EQ(stale[0].begin, 1000);
  EXPECT_EQ(stale[0].end, 1024);
}

TEST(GraphHazards, FlagStateSharedWithAnotherBucketsScratch) {
  StepGraph graphs[2] = {clean_step(), clean_step()};
  graphs[1].name = "bucket-96";
  ASSERT_TRUE(check_graphs(graphs)->empty()) << "the KV pool is shared on purpose";
  graphs[1].buffers[k_logits] = {"logits", "kv", 4096, 512, BufferKind::scratch};
  const auto hazards = check_graphs(graphs);
  ASSERT_TRUE(hazards.ok());
  ASSERT_FALSE(hazards->empty());
  const auto it = std::find_if(hazards->begin(), hazards->end(), [](const Hazard& h) {
    return h.kind == HazardKind::shared_state && h.graph == "bucket-64, bucket-96";
  });
  ASSERT_NE(it, hazards->end());
  EXPECT_EQ(it->begin, 4096);
  EXPECT_EQ(it->end, 4608);
}

TEST(GraphHazards, CountAProgrammaticEdgeOnlyWhereTheConsumerWaits) {
  StepGraph g = clean_step();
  for (GraphEdge& edge : g.edges) {
    if (edge.from == k_topk) edge.is_programmatic = true;
  }
  EXPECT_TRUE(check(g).empty()) << "attend waits before its first access";
  g.nodes[k_attend].waits_for_grid = false;
  const auto hazards = check(g);
  ASSERT_FALSE(hazards.empty());
  EXPECT_EQ(hazards[0].kind, HazardKind::unordered);
}

TEST(GraphHazards, PassNoOrderThroughANodeThatDoesNotWait) {
  StepGraph g = clean_step();
  // topk -> bridge is programmatic and bridge does not wait; bridge -> attend is full.
  g.nodes.push_back({"bridge", 1, false, {}, {}});
  std::erase_if(g.edges, [](const GraphEdge& e) { return e.from == k_topk; });
  g.edges.push_back({k_topk, 7, true});
  g.edges.push_back({7, k_attend, false});
  ASSERT_FALSE(check(g).empty());
  g.nodes[7].waits_for_grid = true;
  EXPECT_TRUE(check(g).empty());
}

TEST(GraphHazards, RefuseMalformedGraphsByName) {
  const auto refused = [](StepGraph g, const char* part) {
    const auto hazards = check_graphs(std::span(&g, 1));
    ASSERT_FALSE(hazards.ok());
    EXPECT_NE(hazards.error().message.find(part), std::string::npos) << hazards.error().message;
  };
  StepGraph cyclic = clean_step();
  cyclic.edges.push_back({k_output, k_embed});
  refused(cyclic, "cycle");
  StepGraph out_of_range = clean_step();
  out_of_range.nodes[k_attend].reads[0].end = 4096;
  refused(out_of_range, "outside buffer q of 2048 bytes");
  StepGraph bad_edge = clean_step();
  bad_edge.edges.push_back({0, 99});
  refused(bad_edge, "edge 0 -> 99");
  StepGraph bad_buffer = clean_step();
  bad_buffer.nodes[0].writes[0].buffer = 42;
  refused(bad_buffer, "buffer index 42");
}

// A random graph over a small arena.
StepGraph random_graph() {
  constexpr int k_arena_bytes = 12;
  StepGraph g;
  g.name = "random";
  const int buffers = *rc::gen::inRange(1, 5);
  for (int b = 0; b < buffers; ++b) {
    const int offset = *rc::gen::inRange(0, k_arena_bytes - 1);
    const int bytes = *rc::gen::inRange(1, k_arena_bytes - offset + 1);
    g.buffers.push_back({"b" + std::to_string(b), "a", offset, bytes, BufferKind::scratch});
  }
  const int nodes = *rc::gen::inRange(1, 7);
  const auto access = [&](int producers) {
    const int b = *rc::gen::inRange(0, buffers);
    const int bytes = static_cast<int>(g.buffers[static_cast<std::size_t>(b)].bytes);
    const int begin = *rc::gen::inRange(0, bytes);
    return Access{b, begin, *rc::gen::inRange(begin, bytes) + 1,
                  producers > 0 ? *rc::gen::inRange(-1, producers) : k_no_producer};
  };
  for (int n = 0; n < nodes; ++n) {
    GraphNode node{"n" + std::to_string(n), 0, *rc::gen::arbitrary<bool>(), {}, {}};
    if (*rc::gen::arbitrary<bool>()) node.reads.push_back(access(nodes));
    if (*rc::gen::arbitrary<bool>()) node.writes.push_back(access(0));
    g.nodes.push_back(node);
    for (int from = 0; from < n; ++from) {
      if (*rc::gen::arbitrary<bool>()) g.edges.push_back({from, n, *rc::gen::arbitrary<bool>()});
    }
  }
  return g;
}

using Finding = std::tuple<HazardKind, std::string, std::string, std::int64_t>;

// Byte by byte, with the closure by repeated relaxation: slow and obvious.
std::set<Finding> brute_force(const StepGraph& g) {
  const auto n = g.nodes.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n));
  for (std::size_t round = 0; round < n; ++round) {
    for (const GraphEdge& e : g.edges) {
      const auto from = static_cast<std::size_t>(e.from), to = static_cast<std::size_t>(e.to);
      if (e.is_programmatic && !g.nodes[to].waits_for_grid) continue;
      before[from][to] = true;
      for (std::size_t a = 0; a < n; ++a) {
        if (before[a][from]) before[a][to] = true;
      }
    }
  }
  const auto touches = [&](const Access& x, std::int64_t byte) {
    const std::int64_t base = g.buffers[static_cast<std::size_t>(x.buffer)].offset_bytes;
    return base + x.begin <= byte && byte < base + x.end;
  };
  std::set<Finding> found;
  for (std::int64_t byte = 0; byte < 12; ++byte) {
    const auto writes = [&](std::size_t v) {
      return !g.nodes[v].writes.empty() && touches(g.nodes[v].writes[0], byte);
    };
    const auto reads = [&](std::size_t v) {
      return !g.nodes[v].reads.empty() && touches(g.nodes[v].reads[0], byte);
    };
    for (std::size_t u = 0; u < n; ++u) {
      for (std::size_t v = u + 1; v < n; ++v) {
        const bool conflict = (writes(u) && (reads(v) || writes(v))) || (reads(u) && writes(v));
        if (conflict && !before[u][v] && !before[v][u]) {
          found.insert({HazardKind::unordered, g.nodes[u].name, g.nodes[v].name, byte});
        }
      }
    }
    for (std::size_t v = 0; v < n; ++v) {
      if (!reads(v)) continue;
      const int producer = g.nodes[v].reads[0].producer;
      bool any = false;
      for (std::size_t w = 0; w < n; ++w) {
        if (!writes(w) || !before[w][v]) continue;
        any = true;
        bool hidden = false;
        for (std::size_t x = 0; x < n; ++x) {
          hidden = hidden || (writes(x) && before[w][x] && before[x][v]);
        }
        if (!hidden && static_cast<int>(w) != producer) {
          found.insert({HazardKind::wrong_producer, g.nodes[w].name, g.nodes[v].name, byte});
        }
      }
      if (!any && producer == k_no_producer) {
        found.insert({HazardKind::stale_scratch, g.nodes[v].name, "", byte});
      } else if (!any) {
        found.insert({HazardKind::wrong_producer, g.nodes[static_cast<std::size_t>(producer)].name,
                      g.nodes[v].name, byte});
      }
    }
  }
  return found;
}

RC_GTEST_PROP(GraphHazards, AgreeWithAByteWiseBruteForceOnRandomGraphs, ()) {
  const StepGraph g = random_graph();
  std::set<Finding> found;
  for (const Hazard& h : *check_graphs(std::span(&g, 1))) {
    std::string first = h.first, second = h.second;
    if (h.kind == HazardKind::unordered && first > second) std::swap(first, second);
    for (std::int64_t byte = h.begin; byte < h.end; ++byte) {
      found.insert({h.kind, first, second, byte});
    }
  }
  RC_ASSERT(found == brute_force(g));
}

}  // namespace
}  // namespace splitwave
