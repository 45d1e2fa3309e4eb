// Broken invariants. Owns SPLITWAVE_CHECK: aborts with the expression, the place and a message.
// Never used for bad input or a lacking environment: those are Error values (splitwave/status.h).
#pragma once

#include <string>

namespace splitwave {

[[noreturn]] void check_failed(const char* expression, const char* file, int line,
                               const std::string& message);

}  // namespace splitwave

#define SPLITWAVE_CHECK(condition, message)                                 \
  do {                                                                      \
    if (!(condition)) {                                                     \
      ::splitwave::check_failed(#condition, __FILE__, __LINE__, (message)); \
    }                                                                       \
  } while (false)
