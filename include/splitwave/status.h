// Errors as values. Owns Error, Status and Expected<T>; every fallible call of the public API
// returns one of them. Bad input and a lacking environment are errors; a broken invariant aborts
// instead (src/base/check.h). Libraries neither print nor exit: the caller decides.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace splitwave {

// What kind of failure it was. The command line maps it to an exit status (see exit_status).
enum class ErrorKind {
  bad_input,    // a value that the caller gave: names the field, the value and what would work
  environment,  // the machine lacks something: a device, a library, disk space, a permission
  gate,         // a correctness gate failed or a result is wrong
};

struct Error {
  ErrorKind kind = ErrorKind::bad_input;
  std::string message;
};

[[nodiscard]] inline Error bad_input(std::string message) {
  return {ErrorKind::bad_input, std::move(message)};
}
[[nodiscard]] inline Error environment_error(std::string message) {
  return {ErrorKind::environment, std::move(message)};
}
[[nodiscard]] inline Error gate_error(std::string message) {
  return {ErrorKind::gate, std::move(message)};
}

// 1 gate, 2 bad input, 3 environment: the contract of the command line.
[[nodiscard]] constexpr int exit_status(ErrorKind kind) {
  return kind == ErrorKind::gate ? 1 : kind == ErrorKind::bad_input ? 2 : 3;
}

// A value or an Error. Reading the wrong side throws std::bad_variant_access, which is a bug.
template <class T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : state_(std::move(value)) {}      // NOLINT: implicit on purpose
  Expected(Error error) : state_(std::move(error)) {}  // NOLINT: implicit on purpose

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T value() && { return std::get<0>(std::move(state_)); }  // by value: safe in a range-for
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  [[nodiscard]] const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

// Success, or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : state_(std::move(error)) {}  // NOLINT: implicit on purpose

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<std::monostate, Error> state_;
};

}  // namespace splitwave
