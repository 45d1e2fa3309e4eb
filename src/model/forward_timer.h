// Adds the life of a scope to an operator's time. Private to forward_*.cpp.
#pragma once

#include <chrono>

#include "model/forward_pass.h"

namespace splitwave::model {

class ForwardPass::Timer {
 public:
  Timer(ForwardPass& pass, Operator op)
      : time_(pass.times_[static_cast<std::size_t>(op)]), begin_(Clock::now()) {}
  ~Timer() {
    time_.seconds += std::chrono::duration<double>(Clock::now() - begin_).count();
    ++time_.calls;
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  OperatorTime& time_;
  Clock::time_point begin_;
};

// Below these a second worker costs more in waking up than it takes over.
inline constexpr int k_parallel_tokens = 8;
inline constexpr std::int64_t k_parallel_products = std::int64_t{1} << 18;

// Calls body(token) for every token, each by one worker: a token's arithmetic is its own.
template <class Body>
void ForwardPass::for_tokens(int tokens, Body&& body) {
  const int workers = std::min(pool_.threads(), tokens / k_parallel_tokens + 1);
  pool_.run(workers, [&](int worker) {
    for (int t = worker; t < tokens; t += workers) body(t);
  });
}

}  // namespace splitwave::model
