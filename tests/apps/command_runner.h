// Starts the splitwave program of this build and returns what it wrote. Called by tests/apps.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace splitwave {

struct CommandResult {
  int status = -1;
  std::string out;
  std::string err;

  [[nodiscard]] nlohmann::json json() const { return nlohmann::json::parse(out); }
};

// arguments: a shell command line's tail; binary_dir: SPLITWAVE_BINARY_DIR of the test's source.
inline CommandResult run_splitwave(const std::string& binary_dir, const std::string& arguments) {
  const std::string error_file = binary_dir + "/test_apps_stderr.txt";
  const std::string command =
      "'" + binary_dir + "/bin/splitwave' " + arguments + " 2>'" + error_file + "'";
  CommandResult result;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return result;
  char buffer[4096];
  std::size_t n = 0;
  while ((n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0) result.out.append(buffer, n);
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  std::ifstream errors(error_file);
  result.err.assign(std::istreambuf_iterator<char>(errors), std::istreambuf_iterator<char>());
  return result;
}

}  // namespace splitwave
