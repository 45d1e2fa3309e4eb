// Prints a broken invariant and aborts.
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace splitwave {

void check_failed(const char* expression, const char* file, int line, const std::string& message) {
  std::fprintf(stderr, "splitwave: broken invariant %s at %s:%d: %s\n", expression, file, line,
               message.c_str());
  std::abort();
}

}  // namespace splitwave
