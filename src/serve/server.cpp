// Start: engine thread, then the port. Stop: the other way round, so that no sink outlives what it
// writes to.
#include "serve/server.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/json_writer.h"
#include "base/sha256.h"
#include "serve/api.h"

namespace splitwave::serve {
namespace {

std::string pair_value(const std::vector<std::pair<std::string, std::string>>& pairs,
                       const std::string& name) {
  for (const auto& [key, value] : pairs) {
    if (key == name) return value;
  }
  return {};
}

std::string config_json(ServerConfig config, const std::string& version, const EngineLoop& loop) {
  JsonWriter json;
  json.begin_object().field("version", version);
  json.field("model", config.model_name).field("plan", config.engine.plan);
  json.field("batch_dependent", pair_value(loop.description(), "batch_dependent") == "true");
  json.field("pid", static_cast<std::int64_t>(getpid()));
  json.field("started_unix_s",
             static_cast<std::int64_t>(std::chrono::duration_cast<std::chrono::seconds>(
                                           std::chrono::system_clock::now().time_since_epoch())
                                           .count()));
  json.key("effective").begin_object();
  for (const auto& [name, value] : loop.description()) json.field(name, value);
  json.end_object();
  std::string section;
  for (const ConfigField& f : config_fields(config)) {
    if (section != f.section) {
      if (!section.empty()) json.end_object();
      section = f.section;
      json.key(section).begin_object();
    }
    if (f.text != nullptr) {
      json.field(f.name, *f.text);
    } else if (f.flag != nullptr) {
      json.field(f.name, *f.flag);
    } else {
      json.field(f.name, f.whole != nullptr ? std::int64_t{*f.whole} : *f.large);
    }
  }
  json.end_object().end_object();
  return json.str();
}

// What decides the bits of an answer besides the request itself.
std::string fingerprint_of(const EngineLoop& loop, const std::string& version) {
  std::string text = version;
  for (const auto& [name, value] : loop.description()) {
    if (name != "threads") text += "\n" + name + "=" + value;
  }
  return "sw-" + sha256_hex(text).substr(0, 16);
}

class RunningServer final : public Server {
 public:
  RunningServer(const ServerConfig& config, std::unique_ptr<model::Engine> engine,
                Tokenizer tokenizer)
      : config_(config),
        tokenizer_(std::move(tokenizer)),
        metrics_(config.model_name),
        loop_(std::move(engine), config.scheduler, &metrics_) {}
  ~RunningServer() override { stop(0); }

  [[nodiscard]] Status listen(const std::string& version) {
    const auto address = parse_listen(config_.listen);
    if (!address.ok()) return address.error();
    ApiOptions options;
    if (!config_.api_key_file.empty()) {
      auto keys = read_api_keys(config_.api_key_file);
      if (!keys.ok()) return keys.error();
      options.api_keys = std::move(*keys);
    }
    options.limits.model_name = config_.model_name;
    options.limits.vocab_size = loop_.config().vocab_size;
    options.limits.context_tokens_max = config_.engine.positions_max;
    options.limits.output_tokens_max =
        std::min(config_.output_tokens_max, config_.engine.positions_max);
    // 0 is the engine's default (engine.h): one request may not exceed the pool it makes of it.
    options.kv_tokens_max = config_.engine.kv_tokens_max > 0
                                ? config_.engine.kv_tokens_max
                                : std::int64_t{config_.engine.sequences_max} *
                                      config_.engine.positions_max / 4;
    options.request_s_max = config_.request_s;
    options.version = version;
    options.config_json = config_json(config_, version, loop_);
    options.fingerprint = fingerprint_of(loop_, version);
    api_ = std::make_unique<Api>(loop_, tokenizer_, metrics_, std::move(options));
    HttpOptions http;
    http.address = address->address;
    http.port = address->port;
    http.threads = config_.http_threads;
    http.limits = config_.http;
    http.error_body = http_error_json;
    http.on_response = [this](int status) { metrics_.on_response(status); };
    auto server = HttpServer::start(
        http, [this](HttpRequest request, const std::shared_ptr<Responder>& responder) {
          api_->handle(std::move(request), responder);
        });
    if (!server.ok()) return server.error();
    http_ = std::move(*server);
    return {};
  }

  [[nodiscard]] int port() const override { return http_->port(); }

  bool drain_and_stop() override { return stop(config_.drain_s); }

 private:
  bool stop(int grace_s) {
    if (http_ == nullptr) return true;
    api_->drain();
    loop_.drain();
    const bool is_idle = loop_.wait_idle(Clock::now() + std::chrono::seconds(grace_s));
    loop_.stop();  // ends what is left: every sink has said its last word
    http_->stop_listening();
    http_->stop(std::min(2, std::max(1, grace_s)));
    http_.reset();
    return is_idle;
  }

  ServerConfig config_;
  Tokenizer tokenizer_;
  Metrics metrics_;
  EngineLoop loop_;
  std::unique_ptr<Api> api_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace

Expected<std::unique_ptr<Server>> Server::start(const ServerConfig& given,
                                                std::unique_ptr<model::Engine> engine,
                                                Tokenizer tokenizer, const std::string& version) {
  if (Status checked = check_config(given); !checked.ok()) return checked.error();
  ServerConfig config = given;
  if (config.model_name.empty()) {
    config.model_name = std::filesystem::path(config.model).filename().string();
  }
  if (config.model_name.empty()) config.model_name = "default";
  auto server = std::make_unique<RunningServer>(config, std::move(engine), std::move(tokenizer));
  if (Status listening = server->listen(version); !listening.ok()) return listening.error();
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace splitwave::serve
