// libcurl's multi interface. Connections are kept and reused between requests of one loop.
#include "load/http_loop.h"

#include <curl/curl.h>

#include <unordered_map>
#include <utility>

namespace splitwave::load {
namespace {

constexpr long k_connections_max = 1024;
constexpr long k_connect_timeout_ms = 10'000;

void initialise_curl_once() {
  static const CURLcode done = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)done;
}

}  // namespace

struct HttpLoop::Impl {
  struct Transfer {
    HttpRequest request;
    OnBody on_body;
    OnEnd on_end;
    CURL* easy = nullptr;
    curl_slist* headers = nullptr;
    std::size_t bytes = 0;
    char error[CURL_ERROR_SIZE] = {};

    ~Transfer() {
      curl_slist_free_all(headers);
      if (easy != nullptr) curl_easy_cleanup(easy);
    }
  };

  static std::size_t take_body(char* data, std::size_t, std::size_t bytes, void* user) {
    auto* transfer = static_cast<Transfer*>(user);
    transfer->bytes += bytes;
    if (transfer->bytes > k_response_bytes_max) return 0;  // libcurl ends the transfer
    if (transfer->on_body) transfer->on_body({data, bytes});
    return bytes;
  }

  CURLM* multi = nullptr;
  std::unordered_map<CURL*, std::unique_ptr<Transfer>> transfers;

  void finish(const CURLMsg& message) {
    const auto found = transfers.find(message.easy_handle);
    if (found == transfers.end()) return;
    const std::unique_ptr<Transfer> transfer = std::move(found->second);
    transfers.erase(found);
    curl_multi_remove_handle(multi, transfer->easy);
    HttpEnd end;
    long status = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    end.status = static_cast<int>(status);
    if (message.data.result != CURLE_OK) {
      end.error =
          transfer->error[0] != '\0' ? transfer->error : curl_easy_strerror(message.data.result);
    }
    if (transfer->on_end) transfer->on_end(end);
  }
};

HttpLoop::HttpLoop() : impl_(std::make_unique<Impl>()) {
  initialise_curl_once();
  impl_->multi = curl_multi_init();
  curl_multi_setopt(impl_->multi, CURLMOPT_MAXCONNECTS, k_connections_max);
}

HttpLoop::~HttpLoop() {
  abandon();
  curl_multi_cleanup(impl_->multi);
}

void HttpLoop::start(HttpRequest request, OnBody on_body, OnEnd on_end) {
  auto transfer = std::make_unique<Impl::Transfer>();
  transfer->request = std::move(request);
  transfer->on_body = std::move(on_body);
  transfer->on_end = std::move(on_end);
  transfer->easy = curl_easy_init();
  CURL* easy = transfer->easy;
  const HttpRequest& r = transfer->request;
  curl_easy_setopt(easy, CURLOPT_URL, r.url.c_str());
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, k_connect_timeout_ms);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(r.timeout_s * 1000));
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Impl::take_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer.get());
  if (!r.body.empty()) {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(r.body.size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, r.body.c_str());
    transfer->headers = curl_slist_append(transfer->headers, "Content-Type: application/json");
    // Without this libcurl asks for permission before a long body and waits a second for it.
    transfer->headers = curl_slist_append(transfer->headers, "Expect:");
  }
  if (!r.api_key.empty()) {
    transfer->headers =
        curl_slist_append(transfer->headers, ("Authorization: Bearer " + r.api_key).c_str());
  }
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
  curl_multi_add_handle(impl_->multi, easy);
  impl_->transfers.emplace(easy, std::move(transfer));
}

void HttpLoop::turn(int wait_ms) {
  int running = 0;
  curl_multi_perform(impl_->multi, &running);
  int left = 0;
  bool ended = false;
  while (const CURLMsg* message = curl_multi_info_read(impl_->multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    impl_->finish(CURLMsg(*message));
    ended = true;
  }
  if (!ended) curl_multi_poll(impl_->multi, nullptr, 0, wait_ms, nullptr);
}

void HttpLoop::abandon() {
  for (auto& [easy, transfer] : impl_->transfers) curl_multi_remove_handle(impl_->multi, easy);
  impl_->transfers.clear();
}

int HttpLoop::active() const { return static_cast<int>(impl_->transfers.size()); }

Expected<HttpResponse> http_fetch(const HttpRequest& request) {
  HttpLoop loop;
  HttpResponse response;
  HttpEnd end;
  loop.start(
      request, [&](std::string_view bytes) { response.body += bytes; },
      [&](const HttpEnd& e) { end = e; });
  while (loop.active() > 0) loop.turn(1000);
  if (!end.error.empty()) return environment_error(request.url + ": " + end.error);
  response.status = end.status;
  return response;
}

}  // namespace splitwave::load
