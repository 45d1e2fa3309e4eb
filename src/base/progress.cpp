// One line, rewritten at most ten times a second.
#include "base/progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace splitwave {

Progress::Progress(std::string what, std::int64_t total)
    : what_(std::move(what)),
      total_(total),
      is_terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      last_print_(start_) {}

Progress::~Progress() {
  if (is_terminal_ && done_ > 0) std::fprintf(stderr, "\r\033[K");
}

void Progress::advance(std::int64_t steps) {
  done_ += steps;
  if (!is_terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_print_ < std::chrono::milliseconds(100) && done_ < total_) return;
  last_print_ = now;
  const double elapsed_s = std::chrono::duration<double>(now - start_).count();
  const double left_s =
      done_ > 0 ? elapsed_s * static_cast<double>(total_ - done_) / static_cast<double>(done_) : 0;
  std::fprintf(stderr, "\r\033[K%s %lld/%lld, %.0f s left", what_.c_str(),
               static_cast<long long>(done_), static_cast<long long>(total_), left_s);
  std::fflush(stderr);
}

}  // namespace splitwave
