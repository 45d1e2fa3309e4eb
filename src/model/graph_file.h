// Exported step graphs as JSON. Owns the reader and the writer; the checker is src/runtime's.
//
//   {"schema": "splitwave.step_graph/1",
//    "graphs": [{"name": "bucket-64",
//      "buffers": [{"name": "q", "arena": "pool", "offset": 0, "bytes": 2048, "kind": "scratch"}],
//      "nodes": [{"name": "project", "stream": 0, "waits_for_grid": true,
//                 "reads": [{"buffer": "h", "begin": 0, "end": 64, "producer": "embed"}],
//                 "writes": [{"buffer": "q"}]}],
//      "edges": [{"from": "embed", "to": "project", "programmatic": false}]}]}
//
// begin and end default to the whole buffer, producer to null (a value from before the replay),
// kind is scratch, state, constant or io. Names are unique within a graph.
#pragma once

#include <string>
#include <vector>

#include "runtime/step_graph.h"
#include "splitwave/status.h"

namespace splitwave::model {

inline constexpr std::int64_t k_graph_file_bytes_max = 256 << 20;

[[nodiscard]] Expected<std::vector<StepGraph>> parse_graph_file(const std::string& text,
                                                                const std::string& source);
[[nodiscard]] Expected<std::vector<StepGraph>> read_graph_file(const std::string& path);
[[nodiscard]] std::string to_graph_json(const std::vector<StepGraph>& graphs);

}  // namespace splitwave::model
