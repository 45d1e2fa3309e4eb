// The files that the style rules look at. Owns SourceTree: the tracked files of a checkout, or
// every file below a folder when there is no git (a tarball, a planted tree of a self-test). Reads
// files, judges nothing. Called by the rules in this folder.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace splitwave::tidy {

class SourceTree {
 public:
  // git's list where `root` is the top of a checkout that git can read; else walked().
  static SourceTree tracked(const std::string& root);
  // Every regular file, without .git and what is built or downloaded (build*, .venv, .carry).
  static SourceTree walked(const std::string& root);

  [[nodiscard]] const std::string& root() const { return root_; }
  [[nodiscard]] const std::vector<std::string>& files() const {
    return files_;
  }  // relative, sorted
  [[nodiscard]] bool has(const std::string& path) const;
  [[nodiscard]] bool has_folder(const std::string& path) const;

  [[nodiscard]] const std::string& text(const std::string& path) const;
  [[nodiscard]] std::vector<std::string_view> lines(const std::string& path) const;

 private:
  std::string root_;
  std::vector<std::string> files_;
  mutable std::map<std::string, std::string> texts_;
};

[[nodiscard]] std::string folder_of(const std::string& path);  // "" at the top
[[nodiscard]] std::string file_name_of(const std::string& path);
[[nodiscard]] std::string extension_of(const std::string& path);  // ".cpp"; "" without one

// C++ and CUDA sources and headers.
[[nodiscard]] bool is_cpp(const std::string& path);
[[nodiscard]] bool is_cuda(const std::string& path);
[[nodiscard]] bool is_header(const std::string& path);

// "a/b/../c" -> "a/c"; "" when it leaves the root.
[[nodiscard]] std::string normalised(const std::string& path);

}  // namespace splitwave::tidy
