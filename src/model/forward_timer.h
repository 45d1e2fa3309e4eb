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

// Calls body(token) for every token, each by one worker: a token's arithmetic is its own.
template <class Body>
void ForwardPass::for_tokens(int tokens, Body&& body) {
  const int workers = std::min(pool_.threads(), tokens);
  pool_.run(workers, [&](int worker) {
    for (int t = worker; t < tokens; t += workers) body(t);
  });
}

}  // namespace splitwave::model
