// One table drives the TOML reader, the flags and /config.
#include "serve/server_config.h"

#include <arpa/inet.h>
#include <sys/stat.h>
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/files.h"
#include "base/nearest_name.h"

namespace splitwave::serve {
namespace {

constexpr std::int64_t k_key_file_bytes_max = 64 << 10;
constexpr std::size_t k_key_bytes_min = 16;

ConfigField text_field(const char* section, const char* name, std::string& value,
                       const char* help) {
  ConfigField f{section, name, help};
  f.text = &value;
  return f;
}
ConfigField flag_field(const char* section, const char* name, bool& value, const char* help) {
  ConfigField f{section, name, help};
  f.flag = &value;
  return f;
}
ConfigField whole_field(const char* section, const char* name, int& value, std::int64_t low,
                        std::int64_t high, const char* help) {
  ConfigField f{section, name, help};
  f.whole = &value;
  f.low = low;
  f.high = high;
  return f;
}
ConfigField large_field(const char* section, const char* name, std::int64_t& value,
                        std::int64_t low, std::int64_t high, const char* help) {
  ConfigField f{section, name, help};
  f.large = &value;
  f.low = low;
  f.high = high;
  return f;
}

std::string dotted(const ConfigField& f) { return std::string(f.section) + "." + f.name; }

std::string place(const std::string& file, const toml::source_region& where) {
  return file + ":" + std::to_string(where.begin.line) + ": ";
}

Status set_field(const ConfigField& f, const toml::node& node, const std::string& where) {
  if (f.text != nullptr) {
    const auto value = node.value_exact<std::string>();
    if (!value) return bad_input(where + dotted(f) + ": expected a string");
    *f.text = *value;
    return {};
  }
  if (f.flag != nullptr) {
    const auto value = node.value_exact<bool>();
    if (!value) return bad_input(where + dotted(f) + ": expected true or false");
    *f.flag = *value;
    return {};
  }
  const auto value = node.value_exact<std::int64_t>();
  if (!value || *value < f.low || *value > f.high) {
    return bad_input(where + dotted(f) + ": expected an integer of " + std::to_string(f.low) +
                     ".." + std::to_string(f.high));
  }
  if (f.whole != nullptr) {
    *f.whole = static_cast<int>(*value);
  } else {
    *f.large = *value;
  }
  return {};
}

Status apply_section(const toml::table& table, const std::string& section,
                     const std::vector<ConfigField>& fields, const std::string& file) {
  std::vector<std::string_view> known;
  for (const ConfigField& f : fields) {
    if (section == f.section) known.emplace_back(f.name);
  }
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    const std::string where = place(file, key.source());
    const auto at = std::find_if(fields.begin(), fields.end(), [&](const ConfigField& f) {
      return section == f.section && name == f.name;
    });
    if (at == fields.end()) {
      return bad_input(where + "[" + section + "] has no field '" + name + "'" +
                       did_you_mean(name, known));
    }
    if (Status set = set_field(*at, node, where); !set.ok()) return set;
  }
  return {};
}

}  // namespace

std::vector<ConfigField> config_fields(ServerConfig& c) {
  constexpr std::int64_t k_day_s = 86'400;
  return {
      text_field("server", "model", c.model, "checkpoint directory (default: a tiny model)"),
      text_field("server", "model_name", c.model_name, "the name that clients ask for"),
      text_field("server", "listen", c.listen, "address:port; port 0 takes any free one"),
      text_field("server", "api_key_file", c.api_key_file, "one key a line; needed off loopback"),
      whole_field("server", "http_threads", c.http_threads, 1, 64, "threads for connections"),
      whole_field("server", "drain_s", c.drain_s, 0, k_day_s, "grace for requests on SIGTERM"),
      whole_field("limits", "request_s", c.request_s, 1, k_day_s, "longest life of a request"),
      whole_field("limits", "output_tokens_max", c.output_tokens_max, 1, 1 << 20,
                  "largest max_tokens"),
      large_field("limits", "body_bytes_max", c.http.body_bytes_max, 1024, 1 << 30,
                  "largest request body"),
      whole_field("limits", "header_bytes_max", c.http.header_bytes_max, 1024, 1 << 20,
                  "largest request header"),
      whole_field("limits", "connections_max", c.http.connections_max, 1, 65'535,
                  "open connections"),
      whole_field("limits", "header_s", c.http.header_s, 1, 3600, "time to send a header"),
      whole_field("limits", "body_s", c.http.body_s, 1, 3600, "time to send a body"),
      whole_field("limits", "idle_s", c.http.idle_s, 1, k_day_s, "idle time of a connection"),
      whole_field("limits", "write_s", c.http.write_s, 1, 3600, "time to take what was written"),
      large_field("limits", "output_bytes_max", c.http.output_bytes_max, 4096, 1 << 30,
                  "bytes that may wait for a slow reader"),
      whole_field("scheduler", "sequences_max", c.scheduler.sequences_max, 1, 4096,
                  "sequences in the batch"),
      whole_field("scheduler", "tokens_per_step", c.scheduler.tokens_per_step, 2, 1 << 20,
                  "token budget of a step"),
      whole_field("scheduler", "prefill_tokens_min", c.scheduler.prefill_tokens_min, 1, 1 << 20,
                  "of the budget, kept for prompts"),
      whole_field("scheduler", "waiting_max", c.scheduler.waiting_max, 1, 1 << 20,
                  "requests that may wait"),
      whole_field("engine", "positions_max", c.engine.positions_max, 2, 1 << 20,
                  "tokens of one sequence"),
      large_field("engine", "kv_tokens_max", c.engine.kv_tokens_max, 0, std::int64_t{1} << 40,
                  "tokens of all sequences; 0: a quarter of the product"),
      whole_field("engine", "threads", c.engine.threads, 0, 1024, "0: SPLITWAVE_THREADS or all"),
      flag_field("engine", "prefix_reuse", c.engine.prefix_reuse, "share common prefixes"),
      whole_field("engine", "opportunistic_k0", c.engine.opportunistic_k0, 0, 64,
                  "0: off; else outputs depend on the batch"),
  };
}

Status apply_toml(std::string_view text, const std::string& name, ServerConfig& config) {
  toml::table root;
  try {
    root = toml::parse(text, name);
  } catch (const toml::parse_error& e) {
    return bad_input(place(name, e.source()) + std::string(e.description()));
  }
  const std::vector<ConfigField> fields = config_fields(config);
  std::vector<std::string_view> sections;
  for (const ConfigField& f : fields) {
    if (sections.empty() || sections.back() != f.section) sections.emplace_back(f.section);
  }
  for (const auto& [key, node] : root) {
    const std::string section(key.str());
    const std::string where = place(name, key.source());
    const toml::table* table = node.as_table();
    if (std::find(sections.begin(), sections.end(), section) == sections.end() ||
        table == nullptr) {
      return bad_input(where + "'" + section + "' is no section" + did_you_mean(section, sections) +
                       "; there are: " + join_names(sections));
    }
    if (Status applied = apply_section(*table, section, fields, name); !applied.ok()) {
      return applied;
    }
  }
  return {};
}

Status apply_flag(const ConfigField& f, const std::string& text) {
  const auto refuse = [&](const std::string& expected) {
    return bad_input("--" + std::string(f.name) + " '" + text + "': expected " + expected);
  };
  if (f.text != nullptr) {
    *f.text = text;
    return {};
  }
  if (f.flag != nullptr) {
    if (text != "true" && text != "false") return refuse("true or false");
    *f.flag = text == "true";
    return {};
  }
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || stop != end || value < f.low || value > f.high) {
    return refuse("an integer of " + std::to_string(f.low) + ".." + std::to_string(f.high));
  }
  if (f.whole != nullptr) {
    *f.whole = static_cast<int>(value);
  } else {
    *f.large = value;
  }
  return {};
}

Expected<ListenAddress> parse_listen(const std::string& text) {
  const auto refuse = [&] {
    return bad_input("listen '" + text +
                     "': expected ADDRESS:PORT, as 127.0.0.1:8000 or [::1]:8000");
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return refuse();
  ListenAddress result;
  result.address = text.substr(0, colon);
  const bool has_brackets =
      result.address.size() > 2 && result.address.front() == '[' && result.address.back() == ']';
  if (has_brackets) result.address = result.address.substr(1, result.address.size() - 2);
  if (result.address == "localhost") result.address = "127.0.0.1";
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data() + colon + 1, end, result.port);
  if (code != std::errc() || stop != end || result.port < 0 || result.port > 65'535) {
    return refuse();
  }
  in_addr v4{};
  in6_addr v6{};
  if (!has_brackets && inet_pton(AF_INET, result.address.c_str(), &v4) == 1) {
    result.is_loopback = (ntohl(v4.s_addr) >> 24) == 127;
  } else if (has_brackets && inet_pton(AF_INET6, result.address.c_str(), &v6) == 1) {
    result.is_loopback = IN6_IS_ADDR_LOOPBACK(&v6) != 0;
  } else {
    return refuse();
  }
  return result;
}

Status check_config(const ServerConfig& c) {
  const auto listen = parse_listen(c.listen);
  if (!listen.ok()) return listen.error();
  if (!listen->is_loopback && c.api_key_file.empty()) {
    return bad_input("listen " + c.listen +
                     " is not loopback: api_key_file is needed, so that not everybody who "
                     "reaches the port may use it");
  }
  if (c.scheduler.sequences_max + c.scheduler.prefill_tokens_min > c.scheduler.tokens_per_step) {
    return bad_input("scheduler: sequences_max " + std::to_string(c.scheduler.sequences_max) +
                     " + prefill_tokens_min " + std::to_string(c.scheduler.prefill_tokens_min) +
                     " exceed tokens_per_step " + std::to_string(c.scheduler.tokens_per_step));
  }
  return {};
}

Expected<std::vector<std::string>> read_api_keys(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && (info.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
    return bad_input("api_key_file " + path + ": others may read it; chmod 600 (or 640) it");
  }
  const auto text = read_file(path, k_key_file_bytes_max);
  if (!text.ok()) return text.error();
  std::vector<std::string> keys;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    if (line.size() < k_key_bytes_min) {
      return bad_input("api_key_file " + path + ": a key has at least " +
                       std::to_string(k_key_bytes_min) + " bytes");
    }
    keys.push_back(line);
  }
  if (keys.empty()) return bad_input("api_key_file " + path + ": no key in it");
  return keys;
}

}  // namespace splitwave::serve
