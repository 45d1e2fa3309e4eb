// The routes: which path answers what, who may ask, and how a body becomes a generation. Owns Api,
// the handler of the HTTP server. Called on HTTP threads; generations go to the engine loop.
// docs/serving.md documents every path and field.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/api_request.h"
#include "serve/completion.h"
#include "serve/engine_loop.h"
#include "serve/http_server.h"
#include "serve/metrics.h"
#include "serve/tokenizer.h"

namespace splitwave::serve {

struct ApiOptions {
  ApiLimits limits;
  double request_s_max = 600;         // from arrival to the last token
  double stalled_s_max = 60;          // /health fails when a step takes longer
  std::vector<std::string> api_keys;  // empty: none is asked for
  std::string version;
  std::string config_json;  // /config's answer
  std::string fingerprint;
  std::int64_t kv_tokens_max = 0;  // of the whole pool; 0: unknown
};

class Api {
 public:
  // All of them outlive the Api, and the Api outlives the HTTP server.
  Api(EngineLoop& loop, const Tokenizer& tokenizer, Metrics& metrics, ApiOptions options);

  void handle(HttpRequest request, const std::shared_ptr<Responder>& responder);
  // /ready says no and generations are refused.
  void drain() { is_draining_ = true; }

 private:
  void route(const HttpRequest& request, const std::shared_ptr<Responder>& responder);
  void generate(const HttpRequest& request, bool is_chat,
                const std::shared_ptr<Responder>& responder);
  void submit(ApiRequest request, std::vector<std::int32_t> prompt, bool begins_in_thinking,
              const std::shared_ptr<Responder>& responder);
  void refuse(const std::shared_ptr<Responder>& responder, const ApiError& error) const;
  void send_health(const std::shared_ptr<Responder>& responder) const;
  void send_ready(const std::shared_ptr<Responder>& responder) const;
  void send_models(const HttpRequest& request, const std::shared_ptr<Responder>& responder) const;
  void send_profile(const std::shared_ptr<Responder>& responder);
  [[nodiscard]] bool is_authorized(const HttpRequest& request) const;
  [[nodiscard]] std::string next_id(bool is_chat);

  EngineLoop& loop_;
  const Tokenizer& tokenizer_;
  Metrics& metrics_;
  const ApiOptions options_;
  const std::int64_t started_unix_s_;
  const std::uint64_t id_seed_;
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<bool> is_draining_{false};
};

}  // namespace splitwave::serve
