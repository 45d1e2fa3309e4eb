// Error bodies, written without a JSON library: nothing here can throw on odd bytes.
#include "serve/api_error.h"

#include "base/json_writer.h"
#include "serve/utf8.h"

namespace splitwave::serve {
namespace {

// Messages quote what the client sent; what is not UTF-8 in it must not break the answer.
std::string quoted(const std::string& text) {
  std::string valid;
  StreamDecoder decoder;
  decoder.push(text, &valid);
  decoder.finish(&valid);
  return '"' + json_escape(valid) + '"';
}

std::string quoted_or_null(const std::string& text) { return text.empty() ? "null" : quoted(text); }

}  // namespace

std::string error_json(const ApiError& error) {
  return "{\"error\": {\"message\": " + quoted(error.message) +
         ", \"type\": " + quoted(error.type) + ", \"param\": " + quoted_or_null(error.param) +
         ", \"code\": " + quoted_or_null(error.code) + "}}\n";
}

std::string http_error_json(int status, const std::string& message) {
  ApiError error;
  error.status = status;
  error.message = message;
  if (status >= 500) error.type = "server_error";
  return error_json(error);
}

}  // namespace splitwave::serve
