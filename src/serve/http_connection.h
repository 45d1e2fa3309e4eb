// One TCP connection and the answer under way on it. Internal to the HTTP server: includes
// Boost.Asio and Beast, and nobody but http_server.cpp and http_connection.cpp may include it.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "serve/http_server.h"

namespace splitwave::serve {

class Connection;

// What connections share with the server.
struct HttpShared {
  HttpOptions options;
  HttpHandler handler;
  std::function<void(Connection*)> on_gone;
  std::atomic<bool> is_stopping{false};
};

// The Responder of one request. Its work happens on the connection's strand.
class Exchange final : public Responder {
 public:
  explicit Exchange(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  ~Exchange() override;

  void send(int status, std::string_view content_type, std::string body,
            HttpHeaders headers) override;
  void begin_stream(std::string_view content_type) override;
  void write(std::string text) override;
  void end() override;
  void on_closed(std::function<void()> callback) override;

  void peer_closed();

 private:
  std::shared_ptr<Connection> connection_;
  std::mutex mutex_;
  std::function<void()> on_closed_;
  bool is_closed_ = false;
  std::atomic<bool> is_ended_{false};
};

class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
  using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Strand>;

  Connection(Socket socket, std::shared_ptr<HttpShared> shared);
  ~Connection();
  void start();
  // From any thread: closes now, or once the answer under way is out.
  void close_soon();
  void close_now();

  // On the strand, from Exchange.
  void answer(int status, std::string_view content_type, std::string body,
              const HttpHeaders& headers);
  void answer_stream(std::string_view content_type);
  void answer_chunk(std::string_view text);
  void answer_end();
  void abandoned();
  [[nodiscard]] const Strand& strand() const { return strand_; }

 private:
  enum class State : std::uint8_t { idle, reading, answering, lingering, closed };

  void wait_for_request();
  void read_header();
  void on_header(boost::beast::error_code error);
  void read_body();
  void dispatch();
  void refuse(int status, const std::string& message);
  void on_read_error(boost::beast::error_code error);
  void watch_peer();
  void append_head(int status, std::string_view content_type, const HttpHeaders& headers,
                   std::optional<std::size_t> length);
  void queue(std::string_view bytes);
  void write_next();
  void on_answered();
  void linger();
  void drop();  // the peer is gone, or is treated so
  void set_deadline(boost::asio::steady_timer& timer, int seconds);
  static void clear_deadline(boost::asio::steady_timer& timer);

  Strand strand_;
  Socket socket_;
  std::shared_ptr<HttpShared> shared_;
  boost::asio::steady_timer read_timer_;
  boost::asio::steady_timer write_timer_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  std::weak_ptr<Exchange> exchange_;
  State state_ = State::idle;
  bool is_watching_ = false;
  bool is_writing_ = false;
  bool is_chunked_ = false;
  bool is_head_ = false;
  bool answer_complete_ = false;
  bool keeps_alive_ = false;
  bool closes_soon_ = false;
  int http_minor_ = 1;
  std::int64_t lingered_bytes_ = 0;
  std::string pending_;
  std::string writing_;
  std::array<char, 4096> discarded_{};
};

}  // namespace splitwave::serve
