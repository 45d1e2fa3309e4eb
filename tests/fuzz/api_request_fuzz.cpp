// Fuzzes the bodies of both generating paths: any bytes give a request within the limits, or an
// error that has a status, words and a JSON form.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "serve/api_request.h"
#include "serve/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace splitwave;
  using namespace splitwave::serve;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  ApiLimits limits;
  limits.model_name = "m";
  limits.vocab_size = 100;
  limits.context_tokens_max = 64;
  limits.output_tokens_max = 32;
  for (const bool is_chat : {false, true}) {
    const auto read = read_api_request(body, is_chat, limits);
    if (const auto* error = std::get_if<ApiError>(&read)) {
      SPLITWAVE_CHECK(error->status >= 400 && error->status < 500, "the status of a refusal");
      SPLITWAVE_CHECK(!error->message.empty(), "a refusal without words");
      const std::string json = error_json(*error);
      SPLITWAVE_CHECK(utf8_valid_prefix(json) == json.size(), "an error that is not UTF-8");
      continue;
    }
    const auto& r = std::get<ApiRequest>(read);
    SPLITWAVE_CHECK(r.max_tokens >= 0 && r.max_tokens <= limits.output_tokens_max, "max_tokens");
    SPLITWAVE_CHECK(r.sampling.temperature >= 0 && r.sampling.temperature <= 2, "temperature");
    SPLITWAVE_CHECK(r.sampling.top_p >= 0 && r.sampling.top_p <= 1, "top_p");
    SPLITWAVE_CHECK(r.stop.size() <= k_stop_strings_max, "stop");
    SPLITWAVE_CHECK(
        r.is_chat ? !r.messages.empty() : !r.prompt_text.empty() || !r.prompt_ids.empty(),
        "nothing to run");
    for (const std::int32_t t : r.prompt_ids) SPLITWAVE_CHECK(t >= 0 && t < 100, "a token id");
  }
  return 0;
}
