// Progress of long work on stderr, with an ETA, only when stderr is a terminal. Called by the
// command line and the experiment runner; silent everywhere else.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace splitwave {

class Progress {
 public:
  Progress(std::string what, std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void advance(std::int64_t steps = 1);

 private:
  std::string what_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  bool is_terminal_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_print_;
};

}  // namespace splitwave
