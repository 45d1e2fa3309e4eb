// fork and exec with a temporary file as standard input; the child's output is read from a pipe.
#include "experiment/gnuplot.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace splitwave::experiment {
namespace {

constexpr int k_not_found = 127;
constexpr std::size_t k_svg_bytes_max = 16 << 20;

struct CloseFile {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

std::string read_all(int fd, std::size_t bytes_max) {
  std::string text;
  char buffer[65536];
  while (text.size() < bytes_max) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  return text;
}

std::string first_line(std::FILE* file) {
  std::rewind(file);
  std::string text = read_all(fileno(file), 4096);
  const std::size_t start = text.find_first_not_of(" \n\t^");
  if (start == std::string::npos) return "no detail";
  text = text.substr(start);
  return text.substr(0, text.find('\n'));
}

}  // namespace

Expected<std::string> run_gnuplot(const std::string& script, const std::string& program) {
  const File input(std::tmpfile());
  const File errors(std::tmpfile());
  int out[2];
  if (input == nullptr || errors == nullptr || ::pipe(out) != 0) {
    return environment_error(std::string("cannot start gnuplot: ") + std::strerror(errno));
  }
  if (std::fwrite(script.data(), 1, script.size(), input.get()) != script.size() ||
      std::fflush(input.get()) != 0) {
    ::close(out[0]);
    ::close(out[1]);
    return environment_error(std::string("cannot write gnuplot's script: ") + std::strerror(errno));
  }
  std::rewind(input.get());
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(fileno(input.get()), STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(fileno(errors.get()), STDERR_FILENO);
    ::close(out[0]);
    ::close(out[1]);
    ::execlp(program.c_str(), program.c_str(), static_cast<char*>(nullptr));
    ::_exit(k_not_found);
  }
  ::close(out[1]);
  if (child < 0) {
    ::close(out[0]);
    return environment_error(std::string("cannot start gnuplot: ") + std::strerror(errno));
  }
  std::string svg = read_all(out[0], k_svg_bytes_max);
  ::close(out[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == k_not_found) {
    return environment_error(
        "gnuplot is not installed: no plots; apt-get install gnuplot-nox, then "
        "`splitwave ab report` on the folder");
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return environment_error("gnuplot failed: " + first_line(errors.get()));
  }
  if (svg.find("</svg>") == std::string::npos) {
    return environment_error("gnuplot drew nothing: " + first_line(errors.get()));
  }
  return svg;
}

}  // namespace splitwave::experiment
