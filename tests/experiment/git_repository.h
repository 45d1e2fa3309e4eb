// A git repository in a fresh folder, made by the git command with no configuration from outside.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace splitwave::experiment::test {

class GitSandbox {
 public:
  GitSandbox() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "splitwave_git_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    root = pattern;
  }
  ~GitSandbox() {
    std::error_code ignored;
    std::filesystem::remove_all(root, ignored);
  }
  GitSandbox(const GitSandbox&) = delete;
  GitSandbox& operator=(const GitSandbox&) = delete;

  [[nodiscard]] std::filesystem::path folder(const std::string& name) const {
    std::filesystem::create_directories(root / name);
    return root / name;
  }

  void run(const std::string& command, const std::filesystem::path& in) const {
    const std::string line =
        "cd '" + in.string() +
        "' && env GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null "
        "GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t " +
        command + " >/dev/null 2>&1";
    if (std::system(line.c_str()) != 0) throw std::runtime_error("failed: " + line);
  }

  static void write(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  // A repository with one commit that holds name = text; returns its top folder.
  [[nodiscard]] std::filesystem::path repository_with(const std::string& name,
                                                      const std::string& text) const {
    const auto top = folder("repo");
    run("git init -q .", top);
    write(top / name, text);
    run("git add -A", top);
    run("git commit -q -m plan", top);
    return top;
  }

  std::filesystem::path root;
};

}  // namespace splitwave::experiment::test
