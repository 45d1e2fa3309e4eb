// Who may include whom: the layer table against the includes, and third-party headers against the
// table below.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include "tidy/includes.h"
#include "tidy/rules.h"

namespace splitwave::tidy {
namespace {

constexpr const char* k_table_path = "scripts/cmake/splitwave_layers.cmake";

// The layers that may use third-party libraries; apps, tests and bench may too.
const std::set<std::string> k_outer_layers = {"experiment", "load", "model", "serve"};

// A family of headers from elsewhere and where it may be included.
struct Library {
  const char* name;
  std::vector<std::string> prefixes;
  std::set<std::string> layers;      // of src/, beside the outer layers where is_outer
  bool is_outer = false;             // all outer layers
  std::vector<std::string> folders;  // outside src/, by prefix
};

const std::vector<Library>& libraries() {
  static const std::vector<Library> table = {
      {"CLI11", {"CLI/"}, {}, false, {"apps/", "tests/", "bench/"}},
      {"nlohmann-json", {"nlohmann/"}, {}, true, {"apps/", "tests/", "bench/"}},
      {"toml++", {"toml++/"}, {}, true, {"apps/", "tests/"}},
      {"libgit2", {"git2"}, {}, true, {"tests/"}},
      {"Boost", {"boost/"}, {}, true, {"tests/"}},
      {"libcurl", {"curl/"}, {}, true, {"tests/"}},
      {"prometheus-cpp", {"prometheus/"}, {}, true, {"tests/"}},
      {"xxhash", {"xxhash"}, {}, true, {"tests/"}},
      {"PCRE2", {"pcre2"}, {}, true, {"tests/"}},
      {"utf8proc", {"utf8proc"}, {}, true, {"tests/"}},
      {"Highway", {"hwy/"}, {"kernels_cpu"}, false, {"apps/", "bench/", "tests/"}},
      {"oneDNN", {"oneapi/dnnl/", "dnnl"}, {}, false, {"apps/", "bench/", "tests/"}},
      {"OpenBLAS", {"cblas", "openblas"}, {}, false, {"apps/", "bench/", "tests/"}},
      {"OpenMP", {"omp.h"}, {}, false, {"apps/", "bench/"}},  // of the library peers
      {"GoogleTest", {"gtest/", "gmock/"}, {}, false, {"tests/"}},
      {"rapidcheck", {"rapidcheck"}, {}, false, {"tests/"}},
      {"google-benchmark", {"benchmark/"}, {}, false, {"bench/", "tests/"}},
      {"CUDA",
       {"cuda", "cublas", "cooperative_groups", "cub/", "thrust/", "nccl", "nv/", "mma.h",
        "device_launch_parameters", "vector_types", "driver_types", "cupti"},
       {"kernels_cuda", "runtime", "measure", "tune", "experiment_runner"},
       true,
       {"apps/", "bench/", "tests/", "python/"}},
      {"Python", {"Python.h", "pybind11/", "nanobind/"}, {}, false, {"python/"}},
  };
  return table;
}

// POSIX and compiler headers with a dot or a slash; what has neither is the C++ standard library's.
bool is_system(const std::string& written) {
  static const std::set<std::string> exact = {
      "arpa/inet.h", "cpuid.h",    "dirent.h", "dlfcn.h",   "errno.h",  "fcntl.h",
      "immintrin.h", "inttypes.h", "math.h",   "netdb.h",   "poll.h",   "pthread.h",
      "sched.h",     "signal.h",   "spawn.h",  "stdbool.h", "stddef.h", "stdint.h",
      "stdio.h",     "stdlib.h",   "string.h", "termios.h", "time.h",   "unistd.h",
      "x86intrin.h", "arm_neon.h", "cxxabi.h", "assert.h",  "glob.h",   "link.h"};
  if (written.starts_with("sys/") || written.starts_with("linux/") ||
      written.starts_with("netinet/") || written.starts_with("sanitizer/")) {
    return true;
  }
  return exact.contains(written) || written.find_first_of("./") == std::string::npos;
}

const Library* library_of(const std::string& written) {
  for (const auto& library : libraries()) {
    for (const auto& prefix : library.prefixes) {
      if (written.starts_with(prefix)) return &library;
    }
  }
  return nullptr;
}

// A CMake file as one text without comments.
std::string cmake_text(const SourceTree& tree, const std::string& path) {
  std::string text;
  for (const auto line : tree.lines(path)) {
    text += line.substr(0, line.find('#'));
    text += ' ';
  }
  return text;
}

std::vector<std::string> words_in(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    std::erase(word, '"');
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

class Layers {
 public:
  explicit Layers(const SourceTree& tree) : tree_(tree) {
    read_table();
    read_members();
  }

  [[nodiscard]] bool empty() const { return allowed_.empty(); }

  // The layer of a file of src/; empty when the folder holds several and nothing says which.
  [[nodiscard]] std::optional<std::string> layer_of(const std::string& path) const {
    if (!path.starts_with("src/")) return {};
    if (const auto at = members_.find(path); at != members_.end()) return at->second;
    if (is_header(path)) {
      const std::string stem = path.substr(0, path.size() - extension_of(path).size());
      for (const char* extension : {".cpp", ".cu", ".c"}) {
        if (const auto at = members_.find(stem + extension); at != members_.end()) {
          return at->second;
        }
      }
    }
    const std::string own = layer_named_like(path);
    if (is_header(path) && shared_folders_.contains(folder_of(path))) return {};
    return own;
  }

  [[nodiscard]] bool knows(const std::string& layer) const { return allowed_.contains(layer); }

  [[nodiscard]] bool may_use(const std::string& user, const std::string& used) const {
    return user == used || allowed_.at(user).contains(used);
  }

 private:
  void read_table() {
    if (!tree_.has(k_table_path)) return;
    static const std::regex entry(R"(set\(\s*SPLITWAVE_LAYER_(\w+)\s+([^)]*)\))");
    const std::string text = cmake_text(tree_, k_table_path);
    for (std::sregex_iterator it(text.begin(), text.end(), entry), end; it != end; ++it) {
      const auto used = words_in((*it)[2]);
      allowed_[(*it)[1]] = std::set<std::string>(used.begin(), used.end());
    }
  }

  void read_members() {
    static const std::regex call(R"(splitwave_layer\(\s*(\w+)\s+([^)]*)\))");
    for (const auto& path : tree_.files()) {
      if (!path.starts_with("src/") || file_name_of(path) != "CMakeLists.txt") continue;
      const std::string text = cmake_text(tree_, path);
      std::set<std::string> layers;
      for (std::sregex_iterator it(text.begin(), text.end(), call), end; it != end; ++it) {
        layers.insert((*it)[1]);
        bool in_sources = false;
        for (const auto& word : words_in((*it)[2])) {
          if (word == "SOURCES" || word == "USES" || word == "PRIVATE_LIBS") {
            in_sources = word == "SOURCES";
          } else if (in_sources) {
            members_[folder_of(path) + '/' + word] = (*it)[1];
          }
        }
      }
      if (layers.size() > 1) shared_folders_.insert(folder_of(path));
    }
  }

  // src/kernels/cuda/common/x.h -> kernels_cuda, src/plan/x.h -> plan.
  [[nodiscard]] std::string layer_named_like(const std::string& path) const {
    std::string name;
    std::istringstream parts(folder_of(path).substr(std::min<std::size_t>(4, path.size())));
    for (std::string part; std::getline(parts, part, '/');) {
      name += (name.empty() ? "" : "_") + part;
      if (allowed_.contains(name)) return name;
    }
    return name;
  }

  const SourceTree& tree_;
  std::map<std::string, std::set<std::string>> allowed_;
  std::map<std::string, std::string> members_;
  std::set<std::string> shared_folders_;
};

// Every file reached from `path` through the project's own headers, with the line of `path` that
// leads there, and every include from elsewhere on the way.
struct Reached {
  std::map<std::string, int> files;
  std::map<std::string, int> elsewhere;
};

Reached reach(const SourceTree& tree, const std::string& path) {
  Reached reached;
  std::vector<std::pair<std::string, int>> open = {{path, 0}};
  while (!open.empty()) {
    const auto [file, via] = open.back();
    open.pop_back();
    for (const auto& include : includes_of(tree, file)) {
      const int line = via == 0 ? include.line : via;
      if (include.project_path.empty()) {
        reached.elsewhere.try_emplace(include.written, line);
      } else if (reached.files.try_emplace(include.project_path, line).second) {
        open.push_back({include.project_path, line});
      }
    }
  }
  return reached;
}

bool library_allowed(const Library& library, const std::string& path,
                     const std::optional<std::string>& layer) {
  if (is_cuda(path) && std::string(library.name) != "CUDA") return false;
  if (path.starts_with("include/")) return false;
  if (layer) {
    return library.layers.contains(*layer) || (library.is_outer && k_outer_layers.contains(*layer));
  }
  return std::any_of(library.folders.begin(), library.folders.end(),
                     [&](const std::string& folder) { return path.starts_with(folder); });
}

}  // namespace

Findings check_layers(const SourceTree& tree) {
  const Layers layers(tree);
  if (layers.empty()) return {{k_table_path, 0, "no layer table could be read"}};
  Findings findings;
  for (const auto& path : tree.files()) {
    const bool is_public = path.starts_with("include/");
    if (!is_cpp(path) || !(path.starts_with("src/") || is_public)) continue;
    const auto layer = layers.layer_of(path);
    if (!is_public && !layer) continue;  // judged through the sources that include it
    if (layer && !layers.knows(*layer)) {
      findings.push_back({path, 0, "layer '" + *layer + "' is not in " + k_table_path});
      continue;
    }
    for (const auto& [file, line] : reach(tree, path).files) {
      if (file.starts_with("include/")) continue;
      if (is_public || !file.starts_with("src/")) {
        findings.push_back({path, line, "reaches " + file + ", which lies outside its layers"});
        continue;
      }
      const auto used = layers.layer_of(file);
      if (!used || !layers.knows(*used) || layers.may_use(*layer, *used)) continue;
      findings.push_back(
          {path, line, "layer '" + *layer + "' may not use '" + *used + "' (" + file + ")"});
    }
  }
  return findings;
}

Findings check_third_party(const SourceTree& tree) {
  const Layers layers(tree);
  Findings findings;
  for (const auto& path : tree.files()) {
    if (!is_cpp(path)) continue;
    const auto layer = layers.layer_of(path);
    if (path.starts_with("src/") && !layer) continue;
    for (const auto& [written, line] : reach(tree, path).elsewhere) {
      if (is_system(written) || written.ends_with(".inc")) continue;  // .inc: written by the build
      const Library* library = library_of(written);
      if (library == nullptr) {
        findings.push_back({path, line,
                            "'" + written +
                                "' is of no known library: a misspelt path, or add the "
                                "library to the table of tests/tidy/layers_rule.cpp"});
      } else if (!library_allowed(*library, path, layer)) {
        findings.push_back(
            {path, line, std::string(library->name) + " ('" + written + "') may not be used here"});
      }
    }
  }
  return findings;
}

}  // namespace splitwave::tidy
