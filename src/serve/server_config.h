// The server's configuration: one TOML file and flags over it. Owns ServerConfig, the one table of
// its fields (names, ranges, help), its reader and its checks. Called by `splitwave serve`, which
// makes a flag of each field, and by /config, which prints each.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/engine.h"
#include "serve/http_server.h"
#include "serve/scheduler.h"
#include "splitwave/status.h"

namespace splitwave::serve {

struct ServerConfig {
  std::string model;       // checkpoint directory; empty: the embedded tiny model
  std::string model_name;  // as clients say it; empty: the directory's name
  std::string listen = "127.0.0.1:8000";
  std::string api_key_file;  // one key a line; required unless the address is loopback
  int http_threads = 2;
  int drain_s = 30;     // after SIGTERM, for the requests under way
  int request_s = 600;  // of one request, from arrival to the last token
  int output_tokens_max = 4096;
  HttpLimits http;
  SchedulerOptions scheduler;
  model::EngineOptions engine;
};

// What one field is: where it stands, what it may be. Exactly one of the pointers is set.
struct ConfigField {
  const char* section;
  const char* name;
  const char* help;
  std::string* text = nullptr;
  int* whole = nullptr;
  std::int64_t* large = nullptr;
  bool* flag = nullptr;
  std::int64_t low = 0;
  std::int64_t high = 0;
};
// Every field, bound to config, in the order of docs/serving.md.
[[nodiscard]] std::vector<ConfigField> config_fields(ServerConfig& config);

// TOML text over the given config; name stands for the file in messages. Unknown sections and
// fields are refused with the nearest known name.
[[nodiscard]] Status apply_toml(std::string_view text, const std::string& name,
                                ServerConfig& config);

// One field from a flag's text.
[[nodiscard]] Status apply_flag(const ConfigField& field, const std::string& text);

// What only the whole can show: the address, the key file's need, the budget's arithmetic.
[[nodiscard]] Status check_config(const ServerConfig& config);

struct ListenAddress {
  std::string address;  // IPv4, or IPv6 without brackets
  int port = 0;
  bool is_loopback = false;
};
[[nodiscard]] Expected<ListenAddress> parse_listen(const std::string& text);

// The keys of a file: one a line, at least 16 bytes each, # begins a comment. A file that others
// may read is refused.
[[nodiscard]] Expected<std::vector<std::string>> read_api_keys(const std::string& path);

}  // namespace splitwave::serve
