// The words and defaults of the flags that target_options.h declares.
#include "target_options.h"

namespace splitwave::app {

void add_target_options(CLI::App& command, load::LoadTarget& target) {
  target.url = "http://127.0.0.1:8000";
  command.add_option("--url", target.url, "the server, without /v1");
  command.add_option("--model", target.model,
                     "the model's name; none: the first that /v1/models lists");
  command.add_option("--api-key", target.api_key, "sent as a bearer token")
      ->envname("OPENAI_API_KEY");
}

}  // namespace splitwave::app
