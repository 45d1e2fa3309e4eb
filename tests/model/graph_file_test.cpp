// Exported graphs: the round trip and refusals that name the field.
#include "model/graph_file.h"

#include <gtest/gtest.h>

#include "runtime/graph_hazards.h"

namespace splitwave::model {
namespace {

const char* const k_text = R"({"schema": "splitwave.step_graph/1", "graphs": [{"name": "g",
  "buffers": [{"name": "x", "arena": "p", "offset": 16, "bytes": 64, "kind": "scratch"},
              {"name": "kv", "arena": "k", "offset": 0, "bytes": 9, "kind": "state"}],
  "nodes": [{"name": "a", "reads": [], "writes": [{"buffer": "x", "end": 32}]},
            {"name": "b", "stream": 1, "waits_for_grid": false,
             "reads": [{"buffer": "x", "begin": 8, "end": 32, "producer": "a"}],
             "writes": [{"buffer": "kv"}]}],
  "edges": [{"from": "a", "to": "b", "programmatic": true}]}]})";

TEST(GraphFile, ReadsDefaultsAndNames) {
  const auto graphs = parse_graph_file(k_text, "t");
  ASSERT_TRUE(graphs.ok()) << graphs.error().message;
  const StepGraph& g = graphs->front();
  EXPECT_EQ(g.nodes[0].writes[0].begin, 0);
  EXPECT_EQ(g.nodes[0].writes[0].end, 32);
  EXPECT_EQ(g.nodes[1].writes[0].end, 9) << "the whole buffer";
  EXPECT_EQ(g.nodes[1].reads[0].producer, 0);
  EXPECT_FALSE(g.nodes[1].waits_for_grid);
  EXPECT_EQ(g.buffers[1].kind, BufferKind::state);
  EXPECT_TRUE(g.edges[0].is_programmatic);
}

TEST(GraphFile, WritesWhatItReads) {
  const auto graphs = parse_graph_file(k_text, "t");
  const std::string once = to_graph_json(*graphs);
  const auto again = parse_graph_file(once, "u");
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(to_graph_json(*again), once);
}

TEST(GraphFile, ReadsTheReadmesExampleAndTheCheckerProvesItClean) {
  const auto graphs =
      read_graph_file(std::string(SPLITWAVE_SOURCE_DIR) + "/docs/examples/step-graph.json");
  ASSERT_TRUE(graphs.ok()) << graphs.error().message;
  ASSERT_EQ(graphs->front().nodes.size(), 7U);
  const auto hazards = check_graphs(*graphs);
  ASSERT_TRUE(hazards.ok()) << hazards.error().message;
  EXPECT_TRUE(hazards->empty()) << hazards->front().explanation;
}

TEST(GraphFile, RefusesWithTheFieldNamed) {
  const auto refused = [](std::string from, const std::string& to, const char* part) {
    std::string text = k_text;
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const auto graphs = parse_graph_file(text, "t");
    ASSERT_FALSE(graphs.ok()) << to;
    EXPECT_NE(graphs.error().message.find(part), std::string::npos) << graphs.error().message;
  };
  refused("step_graph/1", "step_graph/9", "schema must be");
  refused("\"scratch\"", "\"lost\"", "kind lost, need scratch");
  refused("\"bytes\": 64", "\"bytes\": \"64\"", "buffer x: bytes must be an integer");
  refused("\"producer\": \"a\"", "\"producer\": \"z\"", "no node is named z");
  refused("\"from\": \"a\"", "\"from\": 1", "from must be a string");
  refused("\"name\": \"kv\"", "\"name\": \"x\"", "used twice");
  refused("\"reads\": [],", "", "reads must be an array");
  EXPECT_FALSE(parse_graph_file("{", "t").ok());
  EXPECT_FALSE(parse_graph_file(R"({"schema": "splitwave.step_graph/1", "graphs": []})", "t").ok());
}

}  // namespace
}  // namespace splitwave::model
