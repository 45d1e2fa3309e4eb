// Lists files by git or by walking, and reads them.
#include "tidy/tree.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace splitwave::tidy {
namespace {

namespace fs = std::filesystem;

// The NUL-separated output of git ls-files; empty when git cannot read the checkout.
std::string git_list(const std::string& root) {
  if (!fs::exists(fs::path(root) / ".git") || root.find('\'') != std::string::npos) return {};
  const std::string command = "git -C '" + root + "' ls-files -z 2>/dev/null";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string output;
  char buffer[4096];
  while (const std::size_t count = std::fread(buffer, 1, sizeof buffer, pipe)) {
    output.append(buffer, count);
  }
  return pclose(pipe) == 0 ? output : std::string();
}

bool is_skipped_folder(const std::string& name) {
  return name == ".git" || name == ".venv" || name == ".carry" || name == "__pycache__" ||
         name.starts_with("build");
}

}  // namespace

SourceTree SourceTree::tracked(const std::string& root) {
  const std::string list = git_list(root);
  if (list.empty()) return walked(root);
  SourceTree tree;
  tree.root_ = root;
  std::istringstream stream(list);
  for (std::string path; std::getline(stream, path, '\0');) {
    // A file that was removed and not yet committed is gone.
    if (fs::is_regular_file(fs::path(root) / path)) tree.files_.push_back(path);
  }
  std::sort(tree.files_.begin(), tree.files_.end());
  return tree;
}

SourceTree SourceTree::walked(const std::string& root) {
  SourceTree tree;
  tree.root_ = root;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::end(it); ++it) {
    if (it->is_directory() && is_skipped_folder(it->path().filename().string())) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file()) {
      tree.files_.push_back(fs::relative(it->path(), root).generic_string());
    }
  }
  std::sort(tree.files_.begin(), tree.files_.end());
  return tree;
}

bool SourceTree::has(const std::string& path) const {
  return std::binary_search(files_.begin(), files_.end(), path);
}

bool SourceTree::has_folder(const std::string& path) const {
  if (path.empty()) return true;
  const std::string prefix = path + '/';
  const auto at = std::lower_bound(files_.begin(), files_.end(), prefix);
  return at != files_.end() && at->starts_with(prefix);
}

const std::string& SourceTree::text(const std::string& path) const {
  const auto [at, is_new] = texts_.try_emplace(path);
  if (is_new) {
    std::ifstream file(fs::path(root_) / path, std::ios::binary);
    at->second.assign(std::istreambuf_iterator<char>(file), {});
  }
  return at->second;
}

std::vector<std::string_view> SourceTree::lines(const std::string& path) const {
  const std::string_view all = text(path);
  std::vector<std::string_view> result;
  for (std::size_t start = 0; start < all.size();) {
    const std::size_t end = std::min(all.find('\n', start), all.size());
    result.push_back(all.substr(start, end - start));
    start = end + 1;
  }
  return result;
}

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

std::string file_name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string extension_of(const std::string& path) {
  const std::string name = file_name_of(path);
  const auto dot = name.rfind('.');
  return dot == std::string::npos || dot == 0 ? std::string() : name.substr(dot);
}

bool is_cpp(const std::string& path) {
  const std::string extension = extension_of(path);
  return extension == ".h" || extension == ".cpp" || extension == ".c" || is_cuda(path);
}

bool is_cuda(const std::string& path) {
  const std::string extension = extension_of(path);
  return extension == ".cu" || extension == ".cuh";
}

bool is_header(const std::string& path) {
  const std::string extension = extension_of(path);
  return extension == ".h" || extension == ".cuh";
}

std::string normalised(const std::string& path) {
  const std::string result = fs::path(path).lexically_normal().generic_string();
  if (result == ".." || result.starts_with("../") || result.starts_with("/")) return {};
  return result.ends_with('/') ? result.substr(0, result.size() - 1) : result;
}

}  // namespace splitwave::tidy
