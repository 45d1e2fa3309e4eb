// Routing, authorisation, admission, and the small answers.
#include "serve/api.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <random>
#include <utility>

#include "base/json_writer.h"
#include "serve/profile_json.h"

namespace splitwave::serve {
namespace {

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::uint64_t random_bits() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

// Time does not depend on where two keys differ.
bool equal_keys(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(other);
  }
  return difference == 0;
}

struct Route {
  const char* method;
  const char* path;
};
constexpr Route k_routes[] = {
    {"GET", "/health"},    {"GET", "/ready"},           {"GET", "/version"},
    {"GET", "/config"},    {"GET", "/metrics"},         {"GET", "/profile"},
    {"GET", "/v1/models"}, {"POST", "/v1/completions"}, {"POST", "/v1/chat/completions"},
};

constexpr const char* k_json = "application/json";
constexpr std::string_view k_models_prefix = "/v1/models/";

}  // namespace

Api::Api(EngineLoop& loop, const Tokenizer& tokenizer, Metrics& metrics, ApiOptions options)
    : loop_(loop),
      tokenizer_(tokenizer),
      metrics_(metrics),
      options_(std::move(options)),
      started_unix_s_(unix_seconds()),
      id_seed_(random_bits()) {}

void Api::handle(HttpRequest request, const std::shared_ptr<Responder>& responder) {
  if (request.method == "HEAD") request.method = "GET";  // the connection leaves the body out
  const bool is_model = request.path.starts_with(k_models_prefix);
  const auto path_known = [&](const Route& r) { return request.path == r.path; };
  const Route* found = std::find_if(std::begin(k_routes), std::end(k_routes), path_known);
  ApiError error;
  if (found == std::end(k_routes) && !is_model) {
    error.status = 404;
    error.message = "no such path: " + request.path.substr(0, 200);
    return refuse(responder, error);
  }
  if (!is_authorized(request)) {
    error.status = 401;
    error.message = "a valid API key is needed: Authorization: Bearer KEY";
    error.code = "invalid_api_key";
    return refuse(responder, error);
  }
  const std::string method = is_model ? "GET" : found->method;
  if (request.method != method) {
    error.status = 405;
    error.message = request.path.substr(0, 200) + " answers " + method + " only";
    return responder->send(405, k_json, error_json(error), {{"Allow", method}});
  }
  route(request, responder);
}

bool Api::is_authorized(const HttpRequest& request) const {
  if (options_.api_keys.empty() || request.path == "/health" || request.path == "/ready") {
    return true;
  }
  constexpr std::string_view k_bearer = "Bearer ";
  if (!std::string_view(request.authorization).starts_with(k_bearer)) return false;
  const std::string_view given = std::string_view(request.authorization).substr(k_bearer.size());
  bool is_known = false;
  for (const std::string& key : options_.api_keys) is_known |= equal_keys(given, key);
  return is_known;
}

void Api::route(const HttpRequest& request, const std::shared_ptr<Responder>& responder) {
  const std::string& path = request.path;
  if (path == "/v1/completions") return generate(request, false, responder);
  if (path == "/v1/chat/completions") return generate(request, true, responder);
  if (path == "/health") return send_health(responder);
  if (path == "/ready") return send_ready(responder);
  if (path == "/metrics") {
    return responder->send(200, "text/plain; version=0.0.4; charset=utf-8",
                           metrics_.render(loop_.snapshot()));
  }
  if (path == "/config") return responder->send(200, k_json, options_.config_json);
  if (path == "/profile") return send_profile(responder);
  if (path == "/version") {
    return responder->send(200, k_json,
                           "{\"version\": \"" + json_escape(options_.version) + "\"}\n");
  }
  send_models(request, responder);
}

void Api::refuse(const std::shared_ptr<Responder>& responder, const ApiError& error) const {
  HttpHeaders headers;
  if (error.status == 429 || error.status == 503) {
    headers.emplace_back("Retry-After", std::to_string(loop_.retry_after_s()));
  }
  if (error.status == 401) headers.emplace_back("WWW-Authenticate", "Bearer");
  responder->send(error.status, k_json, error_json(error), headers);
}

void Api::send_health(const std::shared_ptr<Responder>& responder) const {
  const double stalled = loop_.stalled_s();
  if (stalled <= options_.stalled_s_max)
    return responder->send(200, k_json, "{\"status\": \"ok\"}\n");
  ApiError error;
  error.status = 503;
  error.type = "server_error";
  error.message = "the engine has not come around for " + std::to_string(stalled) + " s";
  refuse(responder, error);
}

void Api::send_ready(const std::shared_ptr<Responder>& responder) const {
  if (!is_draining_) return responder->send(200, k_json, "{\"status\": \"ready\"}\n");
  ApiError error;
  error.status = 503;
  error.type = "server_error";
  error.message = "draining";
  refuse(responder, error);
}

void Api::send_models(const HttpRequest& request,
                      const std::shared_ptr<Responder>& responder) const {
  const std::string& name = options_.limits.model_name;
  const bool is_list = request.path == "/v1/models";
  if (!is_list && request.path.substr(k_models_prefix.size()) != name) {
    ApiError error;
    error.status = 404;
    error.code = "model_not_found";
    error.message = "no such model; this server has '" + name + "'";
    return refuse(responder, error);
  }
  JsonWriter json;
  if (is_list) json.begin_object().field("object", "list").key("data").begin_array();
  json.begin_object()
      .field("id", name)
      .field("object", "model")
      .field("created", started_unix_s_)
      .field("owned_by", "splitwave")
      .field("max_model_len", options_.limits.context_tokens_max)
      .end_object();
  if (is_list) json.end_array().end_object();
  responder->send(200, k_json, json.str());
}

void Api::send_profile(const std::shared_ptr<Responder>& responder) {
  const bool posted =
      loop_.post([responder](model::Engine& engine, const std::deque<StepSample>& samples) {
        responder->send(200, k_json, profile_json(engine, samples));
      });
  if (posted) return;
  ApiError error;
  error.status = 503;
  error.type = "server_error";
  error.message = "the engine is busy or stopping";
  refuse(responder, error);
}

std::string Api::next_id(bool is_chat) {
  char text[40];
  std::snprintf(text, sizeof text, "%s-%016llx%06llx", is_chat ? "chatcmpl" : "cmpl",
                static_cast<unsigned long long>(id_seed_),
                static_cast<unsigned long long>(requests_.fetch_add(1)));
  return text;
}

void Api::generate(const HttpRequest& request, bool is_chat,
                   const std::shared_ptr<Responder>& responder) {
  if (!request.content_type.starts_with(k_json)) {
    ApiError error;
    error.status = 415;
    error.message = "Content-Type must be application/json";
    return refuse(responder, error);
  }
  auto read = read_api_request(request.body, is_chat, options_.limits);
  if (const auto* error = std::get_if<ApiError>(&read)) return refuse(responder, *error);
  ApiRequest& api = std::get<ApiRequest>(read);
  const char* field = is_chat ? "messages" : "prompt";
  std::vector<std::int32_t> prompt = std::move(api.prompt_ids);
  bool begins_in_thinking = false;
  Expected<std::vector<TokenId>> ids = std::vector<TokenId>();
  if (is_chat) {
    const auto text = encode_chat(api.messages, api.chat);
    if (!text.ok()) {
      ApiError error;
      error.message = text.error().message;
      error.param = field;
      return refuse(responder, error);
    }
    begins_in_thinking = text->begins_in_thinking;
    ids = tokenizer_.encode(text->text, text->literal);
  } else if (prompt.empty()) {
    ids = tokenizer_.encode(api.prompt_text);
  }
  if (!ids.ok()) return refuse(responder, field_error(field, ids.error().message));
  if (prompt.empty()) prompt = std::move(*ids);
  submit(std::move(api), std::move(prompt), begins_in_thinking, responder);
}

void Api::submit(ApiRequest api, std::vector<std::int32_t> prompt, bool begins_in_thinking,
                 const std::shared_ptr<Responder>& responder) {
  const ApiLimits& limits = options_.limits;
  const char* field = api.is_chat ? "messages" : "prompt";
  std::int64_t room = limits.context_tokens_max;
  if (options_.kv_tokens_max > 0) room = std::min(room, options_.kv_tokens_max);
  room -= static_cast<std::int64_t>(prompt.size());
  if (prompt.empty() || room < std::max(1, api.max_tokens)) {
    ApiError error = field_error(field, std::to_string(prompt.size()) + " tokens and max_tokens " +
                                            std::to_string(std::max(1, api.max_tokens)) +
                                            " exceed the context of " +
                                            std::to_string(limits.context_tokens_max));
    error.code = "context_length_exceeded";
    if (prompt.empty()) error = field_error(field, "no tokens");
    return refuse(responder, error);
  }
  const auto fits_vocab = [&](std::int32_t t) { return t >= 0 && t < limits.vocab_size; };
  if (!std::all_of(prompt.begin(), prompt.end(), fits_vocab)) {
    return refuse(responder, field_error(field, "a token of it is outside the model's vocabulary"));
  }
  GenerationRequest generation;
  generation.sampling = api.sampling;
  if (!api.has_seed) generation.sampling.seed = random_bits();
  generation.max_tokens =
      api.max_tokens > 0 ? api.max_tokens
                         : static_cast<int>(std::min<std::int64_t>(room, limits.output_tokens_max));
  generation.sampling.min_tokens = std::min(generation.sampling.min_tokens, generation.max_tokens);
  generation.end_tokens = {loop_.config().eos_token};
  generation.forced_tokens = api.forced_token_ids;
  generation.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(options_.request_s_max));
  generation.cancelled = std::make_shared<std::atomic<bool>>(false);
  CompletionContext context;
  context.tokenizer = &tokenizer_;
  context.id = next_id(api.is_chat);
  context.model = limits.model_name;
  context.fingerprint = options_.fingerprint;
  context.created_unix_s = unix_seconds();
  context.retry_after_s = loop_.retry_after_s();
  context.begins_in_thinking = begins_in_thinking;
  if (api.returns_token_ids) context.prompt_ids = prompt;
  generation.prompt = std::move(prompt);
  generation.sink = std::make_shared<Completion>(api, std::move(context), responder);
  responder->on_closed([flag = generation.cancelled] { flag->store(true); });

  const SubmitResult result =
      is_draining_ ? SubmitResult::draining : loop_.submit(std::move(generation));
  if (result == SubmitResult::accepted) return;
  ApiError error;
  error.status = result == SubmitResult::queue_full ? 429 : 503;
  error.type = result == SubmitResult::queue_full ? "rate_limit_error" : "server_error";
  error.code = result == SubmitResult::queue_full ? "queue_full" : "draining";
  error.message = result == SubmitResult::queue_full ? "the queue is full; try again later"
                                                     : "the server is shutting down";
  refuse(responder, error);
}

}  // namespace splitwave::serve
