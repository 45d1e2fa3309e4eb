// Reads and writes exported step graphs; every refusal names the graph, the item and the field.
#include "model/graph_file.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <unordered_map>

namespace splitwave::model {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* k_schema = "splitwave.step_graph/1";
constexpr const char* k_kind_names[] = {"scratch", "state", "constant", "io"};

// Thrown inside this file only and turned into an Error by parse_graph_file: the reader is a tree
// of small functions in which any field can be wrong.
struct Refusal {
  std::string message;
};

const Json& array_of(const Json& json, const char* name, const std::string& where) {
  const auto it = json.find(name);
  if (it == json.end() || !it->is_array()) {
    throw Refusal{where + ": " + name + " must be an array"};
  }
  return *it;
}

std::string text_of(const Json& json, const char* name, const std::string& where) {
  const auto it = json.find(name);
  if (it == json.end() || !it->is_string()) {
    throw Refusal{where + ": " + name + " must be a string"};
  }
  return it->get<std::string>();
}

std::int64_t integer_of(const Json& json, const char* name, std::optional<std::int64_t> absent,
                        const std::string& where) {
  const auto it = json.find(name);
  if (it == json.end() && absent) return *absent;
  if (it == json.end() || !it->is_number_integer()) {
    throw Refusal{where + ": " + name + " must be an integer"};
  }
  return it->get<std::int64_t>();
}

bool flag_of(const Json& json, const char* name, bool absent, const std::string& where) {
  const auto it = json.find(name);
  if (it == json.end()) return absent;
  if (!it->is_boolean()) throw Refusal{where + ": " + name + " must be true or false"};
  return it->get<bool>();
}

using Names = std::unordered_map<std::string, int>;

int index_of(const Names& names, const std::string& name, const char* what,
             const std::string& where) {
  const auto it = names.find(name);
  if (it == names.end()) throw Refusal{where + ": no " + what + " is named " + name};
  return it->second;
}

Access read_access(const Json& json, const StepGraph& graph, const Names& buffers,
                   const Names& nodes, const std::string& where) {
  if (!json.is_object()) throw Refusal{where + ": an access must be an object"};
  Access access;
  access.buffer = index_of(buffers, text_of(json, "buffer", where), "buffer", where);
  access.begin = integer_of(json, "begin", 0, where);
  access.end =
      integer_of(json, "end", graph.buffers[static_cast<std::size_t>(access.buffer)].bytes, where);
  if (const auto it = json.find("producer"); it != json.end() && !it->is_null()) {
    access.producer = index_of(nodes, text_of(json, "producer", where), "node", where);
  }
  return access;
}

void read_buffers(const Json& json, StepGraph& graph, Names& names, const std::string& where) {
  for (const Json& item : array_of(json, "buffers", where)) {
    Buffer buffer;
    buffer.name = text_of(item, "name", where + ", buffers");
    const std::string here = where + ", buffer " + buffer.name;
    buffer.arena = text_of(item, "arena", here);
    buffer.offset_bytes = integer_of(item, "offset", std::nullopt, here);
    buffer.bytes = integer_of(item, "bytes", std::nullopt, here);
    const std::string kind = text_of(item, "kind", here);
    int k = 0;
    while (k < 4 && kind != k_kind_names[k]) ++k;
    if (k == 4) throw Refusal{here + ": kind " + kind + ", need scratch, state, constant or io"};
    buffer.kind = static_cast<BufferKind>(k);
    if (!names.emplace(buffer.name, static_cast<int>(graph.buffers.size())).second) {
      throw Refusal{here + ": the name is used twice"};
    }
    graph.buffers.push_back(std::move(buffer));
  }
}

StepGraph read_graph(const Json& json, const std::string& source) {
  if (!json.is_object()) throw Refusal{source + ": a graph must be an object"};
  StepGraph graph;
  graph.name = text_of(json, "name", source + ": graph");
  const std::string where = source + ": graph " + graph.name;
  Names buffers, nodes;
  read_buffers(json, graph, buffers, where);
  const Json& items = array_of(json, "nodes", where);
  for (const Json& item : items) {  // names first: a read may name a later node
    GraphNode node;
    node.name = text_of(item, "name", where + ", nodes");
    const std::string here = where + ", node " + node.name;
    node.stream = static_cast<int>(integer_of(item, "stream", 0, here));
    node.waits_for_grid = flag_of(item, "waits_for_grid", true, here);
    if (!nodes.emplace(node.name, static_cast<int>(graph.nodes.size())).second) {
      throw Refusal{here + ": the name is used twice"};
    }
    graph.nodes.push_back(std::move(node));
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    GraphNode& node = graph.nodes[i];
    const std::string here = where + ", node " + node.name;
    for (const Json& item : array_of(items[i], "reads", here)) {
      node.reads.push_back(read_access(item, graph, buffers, nodes, here + ", reads"));
    }
    for (const Json& item : array_of(items[i], "writes", here)) {
      node.writes.push_back(read_access(item, graph, buffers, nodes, here + ", writes"));
    }
  }
  for (const Json& item : array_of(json, "edges", where)) {
    const std::string here = where + ", edges";
    graph.edges.push_back({index_of(nodes, text_of(item, "from", here), "node", here),
                           index_of(nodes, text_of(item, "to", here), "node", here),
                           flag_of(item, "programmatic", false, here)});
  }
  return graph;
}

Json access_json(const StepGraph& graph, const Access& access) {
  Json json = {{"buffer", graph.buffers[static_cast<std::size_t>(access.buffer)].name},
               {"begin", access.begin},
               {"end", access.end}};
  if (access.producer != k_no_producer) {
    json["producer"] = graph.nodes[static_cast<std::size_t>(access.producer)].name;
  }
  return json;
}

}  // namespace

Expected<std::vector<StepGraph>> parse_graph_file(const std::string& text,
                                                  const std::string& source) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return bad_input(source + ": not a JSON object");
  if (json.value("schema", Json()) != k_schema) {
    return bad_input(source + ": schema must be \"" + k_schema + "\"");
  }
  try {
    std::vector<StepGraph> graphs;
    for (const Json& item : array_of(json, "graphs", source)) {
      graphs.push_back(read_graph(item, source));
    }
    if (graphs.empty()) return bad_input(source + ": graphs is empty, so nothing would be proven");
    return graphs;
  } catch (const Refusal& refusal) {
    return bad_input(refusal.message);
  }
}

Expected<std::vector<StepGraph>> read_graph_file(const std::string& path) {
  std::error_code failure;
  const auto bytes = std::filesystem::file_size(path, failure);
  if (failure) return environment_error(path + ": " + failure.message());
  if (bytes > static_cast<std::uintmax_t>(k_graph_file_bytes_max)) {
    return bad_input(path + ": " + std::to_string(bytes) + " bytes, at most " +
                     std::to_string(k_graph_file_bytes_max));
  }
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return environment_error(path + ": cannot read");
  return parse_graph_file(text.str(), path);
}

std::string to_graph_json(const std::vector<StepGraph>& graphs) {
  Json json = {{"schema", k_schema}, {"graphs", Json::array()}};
  for (const StepGraph& graph : graphs) {
    Json item = {{"name", graph.name},
                 {"buffers", Json::array()},
                 {"nodes", Json::array()},
                 {"edges", Json::array()}};
    for (const Buffer& b : graph.buffers) {
      item["buffers"].push_back({{"name", b.name},
                                 {"arena", b.arena},
                                 {"offset", b.offset_bytes},
                                 {"bytes", b.bytes},
                                 {"kind", k_kind_names[static_cast<int>(b.kind)]}});
    }
    for (const GraphNode& n : graph.nodes) {
      Json node = {{"name", n.name},
                   {"stream", n.stream},
                   {"waits_for_grid", n.waits_for_grid},
                   {"reads", Json::array()},
                   {"writes", Json::array()}};
      for (const Access& access : n.reads) node["reads"].push_back(access_json(graph, access));
      for (const Access& access : n.writes) node["writes"].push_back(access_json(graph, access));
      item["nodes"].push_back(std::move(node));
    }
    for (const GraphEdge& e : graph.edges) {
      item["edges"].push_back({{"from", graph.nodes[static_cast<std::size_t>(e.from)].name},
                               {"to", graph.nodes[static_cast<std::size_t>(e.to)].name},
                               {"programmatic", e.is_programmatic}});
    }
    json["graphs"].push_back(std::move(item));
  }
  return json.dump(1) + "\n";
}

}  // namespace splitwave::model
