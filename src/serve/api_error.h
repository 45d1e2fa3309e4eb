// Refusals in OpenAI's error shape. Owns ApiError and its JSON. Made by the request reader and the
// routes.
#pragma once

#include <string>
#include <utility>

namespace splitwave::serve {

struct ApiError {
  int status = 400;
  std::string message;
  std::string param;  // the field's name; empty: none
  std::string type = "invalid_request_error";
  std::string code;  // empty: null
};

// {"error": {"message", "type", "param", "code"}}
[[nodiscard]] std::string error_json(const ApiError& error);

// The same for a refusal below the API (malformed HTTP, limits), by its status.
[[nodiscard]] std::string http_error_json(int status, const std::string& message);

[[nodiscard]] inline ApiError field_error(std::string param, const std::string& message) {
  ApiError error;
  error.message = param + ": " + message;
  error.param = std::move(param);
  return error;
}

}  // namespace splitwave::serve
