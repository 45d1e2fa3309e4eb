// The life of a connection: wait, header, body, answer, and around again. Every read has a deadline
// but one: while an answer is made the peer is watched for its disconnect.
#include "serve/http_connection.h"

#include <array>
#include <cstdio>
#include <utility>

namespace splitwave::serve {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

namespace {

constexpr std::int64_t k_linger_bytes_max = 16 << 20;
constexpr int k_linger_s = 2;

std::string lower_hex(std::size_t n) {
  char text[24];
  std::snprintf(text, sizeof text, "%zx", n);
  return text;
}

}  // namespace

Exchange::~Exchange() {
  if (!is_ended_) {
    asio::post(connection_->strand(), [c = connection_] { c->abandoned(); });
  }
}

void Exchange::send(int status, std::string_view content_type, std::string body,
                    HttpHeaders headers) {
  if (is_ended_.exchange(true)) return;
  asio::post(connection_->strand(),
             [c = connection_, status, type = std::string(content_type), body = std::move(body),
              headers = std::move(headers)] { c->answer(status, type, body, headers); });
}

void Exchange::begin_stream(std::string_view content_type) {
  asio::post(connection_->strand(),
             [c = connection_, type = std::string(content_type)] { c->answer_stream(type); });
}

void Exchange::write(std::string text) {
  if (is_ended_ || text.empty()) return;
  asio::post(connection_->strand(),
             [c = connection_, text = std::move(text)] { c->answer_chunk(text); });
}

void Exchange::end() {
  if (is_ended_.exchange(true)) return;
  asio::post(connection_->strand(), [c = connection_] { c->answer_end(); });
}

void Exchange::on_closed(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_closed_) {
      on_closed_ = std::move(callback);
      return;
    }
  }
  callback();
}

void Exchange::peer_closed() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    callback.swap(on_closed_);
  }
  if (callback) callback();
}

Connection::Connection(Socket socket, std::shared_ptr<HttpShared> shared)
    : strand_(socket.get_executor()),
      socket_(std::move(socket)),
      shared_(std::move(shared)),
      read_timer_(strand_),
      write_timer_(strand_) {}

Connection::~Connection() { shared_->on_gone(this); }

void Connection::start() {
  asio::post(strand_, [self = shared_from_this()] {
    beast::error_code ignored;
    self->socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
    self->read_header();
  });
}

void Connection::set_deadline(asio::steady_timer& timer, int seconds) {
  timer.expires_after(std::chrono::seconds(seconds));
  timer.async_wait([weak = weak_from_this(), &timer](beast::error_code error) {
    const auto self = weak.lock();
    // A timer that was set again between its expiry and this call is not due.
    if (error || self == nullptr || timer.expiry() > asio::steady_timer::clock_type::now()) return;
    const bool is_reading = &timer == &self->read_timer_ && self->state_ == State::reading;
    if (is_reading && self->parser_.has_value() && !self->is_writing_) {
      self->refuse(408, "the request was not complete in time");
    } else {
      self->drop();
    }
  });
}

void Connection::clear_deadline(asio::steady_timer& timer) {
  // Not cancel(): a wait that is already complete must find its expiry moved.
  timer.expires_at(asio::steady_timer::time_point::max());
}

void Connection::wait_for_request() {
  state_ = State::idle;
  set_deadline(read_timer_, shared_->options.limits.idle_s);
  if (is_watching_) return;  // the watch's completion goes on
  if (buffer_.size() > 0) return read_header();
  watch_peer();
}

void Connection::watch_peer() {
  if (is_watching_ || buffer_.size() > 0) return;
  is_watching_ = true;
  socket_.async_read_some(buffer_.prepare(4096),
                          [self = shared_from_this()](beast::error_code error, std::size_t bytes) {
                            self->is_watching_ = false;
                            if (self->state_ == State::closed) return;
                            if (error) return self->drop();
                            self->buffer_.commit(bytes);
                            if (self->state_ == State::idle) self->read_header();
                            // While answering: the beginning of the next request stays in the
                            // buffer.
                          });
}

void Connection::read_header() {
  state_ = State::reading;
  const HttpLimits& limits = shared_->options.limits;
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(limits.header_bytes_max));
  parser_->body_limit(static_cast<std::uint64_t>(limits.body_bytes_max));
  set_deadline(read_timer_, limits.header_s);
  http::async_read_header(socket_, buffer_, *parser_,
                          [self = shared_from_this()](beast::error_code error, std::size_t) {
                            if (self->state_ == State::reading) self->on_header(error);
                          });
}

void Connection::on_header(beast::error_code error) {
  if (error) return on_read_error(error);
  const auto& head = parser_->get();
  const auto expect = head[http::field::expect];
  if (!expect.empty() && !beast::iequals(expect, "100-continue")) {
    return refuse(417, "Expect: only 100-continue is understood");
  }
  set_deadline(read_timer_, shared_->options.limits.body_s);
  if (expect.empty() || parser_->is_done()) return read_body();
  static constexpr std::string_view k_continue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(k_continue),
                    [self = shared_from_this()](beast::error_code write_error, std::size_t) {
                      if (self->state_ != State::reading) return;
                      if (write_error) return self->drop();
                      self->read_body();
                    });
}

void Connection::read_body() {
  http::async_read(socket_, buffer_, *parser_,
                   [self = shared_from_this()](beast::error_code error, std::size_t) {
                     if (self->state_ != State::reading) return;
                     if (error) return self->on_read_error(error);
                     self->dispatch();
                   });
}

void Connection::on_read_error(beast::error_code error) {
  if (error == http::error::body_limit) return refuse(413, "the body is larger than the limit");
  if (error == http::error::header_limit) return refuse(431, "the header is larger than the limit");
  if (error == http::error::end_of_stream || error == http::error::partial_message) return drop();
  if (error.category() == http::make_error_code(http::error::bad_method).category()) {
    return refuse(400, "malformed HTTP: " + error.message());
  }
  drop();
}

// An answer before there is a request to hand over; the connection ends with it.
void Connection::refuse(int status, const std::string& message) {
  clear_deadline(read_timer_);
  state_ = State::answering;
  keeps_alive_ = false;
  is_head_ = false;
  http_minor_ = 1;
  std::string body =
      shared_->options.error_body ? shared_->options.error_body(status, message) : message + "\n";
  answer(status, "application/json", std::move(body), {});
}

void Connection::dispatch() {
  clear_deadline(read_timer_);
  auto message = parser_->release();
  parser_.reset();
  state_ = State::answering;
  answer_complete_ = is_chunked_ = false;
  keeps_alive_ = message.keep_alive();
  http_minor_ = message.version() == 10 ? 0 : 1;
  is_head_ = message.method() == http::verb::head;
  HttpRequest request;
  request.method = std::string(message.method_string());
  request.target = std::string(message.target());
  request.path = request.target.substr(0, request.target.find('?'));
  request.authorization = std::string(message[http::field::authorization]);
  request.content_type = std::string(message[http::field::content_type]);
  request.body = std::move(message.body());
  const auto exchange = std::make_shared<Exchange>(shared_from_this());
  exchange_ = exchange;
  watch_peer();
  try {
    shared_->handler(std::move(request), exchange);
  } catch (const std::exception& e) {
    exchange->send(
        500, "application/json",
        shared_->options.error_body
            ? shared_->options.error_body(500, std::string("internal error: ") + e.what())
            : std::string("internal error\n"),
        {});
  }
}

void Connection::append_head(int status, std::string_view content_type, const HttpHeaders& headers,
                             std::optional<std::size_t> length) {
  if (shared_->options.on_response) shared_->options.on_response(status);
  if (closes_soon_ || shared_->is_stopping) keeps_alive_ = false;
  if (!length.has_value() && http_minor_ == 0) keeps_alive_ = false;
  std::string head = "HTTP/1." + std::to_string(http_minor_) + ' ' + std::to_string(status) + ' ';
  head += std::string(http::obsolete_reason(static_cast<http::status>(status)));
  head += "\r\nContent-Type: ";
  head += content_type;
  if (length.has_value()) {
    head += "\r\nContent-Length: " + std::to_string(*length);
  } else {
    head += "\r\nCache-Control: no-store";
    is_chunked_ = http_minor_ == 1;
    if (is_chunked_) head += "\r\nTransfer-Encoding: chunked";
  }
  for (const auto& [name, value] : headers) {
    head += "\r\n";
    head += name;
    head += ": ";
    head += value;
  }
  head += keeps_alive_ ? "\r\nConnection: keep-alive" : "\r\nConnection: close";
  head += "\r\nX-Content-Type-Options: nosniff\r\n\r\n";
  pending_ += head;
}

void Connection::answer(int status, std::string_view content_type, std::string body,
                        const HttpHeaders& headers) {
  if (state_ != State::answering) return;
  append_head(status, content_type, headers, body.size());
  answer_complete_ = true;
  queue(is_head_ ? std::string_view() : std::string_view(body));
}

void Connection::answer_stream(std::string_view content_type) {
  if (state_ != State::answering) return;
  append_head(200, content_type, {}, std::nullopt);
  queue({});
}

void Connection::answer_chunk(std::string_view text) {
  if (state_ != State::answering) return;
  if (!is_chunked_) return queue(text);
  std::string chunk = lower_hex(text.size()) + "\r\n";
  chunk += text;
  chunk += "\r\n";
  queue(chunk);
}

void Connection::answer_end() {
  if (state_ != State::answering) return;
  answer_complete_ = true;
  queue(is_chunked_ ? "0\r\n\r\n" : "");
}

void Connection::abandoned() {
  if (state_ != State::answering || answer_complete_) return;
  drop();  // nobody will complete it
}

void Connection::queue(std::string_view bytes) {
  pending_ += bytes;
  const HttpLimits& limits = shared_->options.limits;
  // A complete answer is in memory already and may be as long as it is; a stream is bounded.
  if (!answer_complete_ && static_cast<std::int64_t>(pending_.size()) > limits.output_bytes_max) {
    return drop();
  }
  if (!is_writing_) write_next();
}

void Connection::write_next() {
  if (pending_.empty()) {
    if (answer_complete_) on_answered();
    return;
  }
  is_writing_ = true;
  writing_.swap(pending_);
  pending_.clear();
  set_deadline(write_timer_, shared_->options.limits.write_s);
  asio::async_write(socket_, asio::buffer(writing_),
                    [self = shared_from_this()](beast::error_code error, std::size_t) {
                      self->is_writing_ = false;
                      self->clear_deadline(self->write_timer_);
                      if (self->state_ != State::answering) return;
                      if (error) return self->drop();
                      self->write_next();
                    });
}

void Connection::on_answered() {
  exchange_.reset();
  answer_complete_ = false;
  if (!keeps_alive_ || closes_soon_ || shared_->is_stopping) return linger();
  wait_for_request();
}

// The peer may still be sending what was refused: closing at once would reset the connection and
// the answer could be lost. Its bytes are read and dropped for a moment.
void Connection::linger() {
  if (state_ != State::lingering) {
    state_ = State::lingering;
    beast::error_code ignored;
    socket_.shutdown(asio::socket_base::shutdown_send, ignored);
    set_deadline(read_timer_, k_linger_s);
    if (is_watching_) {
      return;  // its completion finds the peer's end, or the deadline does
    }
  }
  socket_.async_read_some(asio::buffer(discarded_),
                          [self = shared_from_this()](beast::error_code error, std::size_t n) {
                            if (self->state_ != State::lingering) return;
                            self->lingered_bytes_ += static_cast<std::int64_t>(n);
                            if (error || self->lingered_bytes_ > k_linger_bytes_max)
                              return self->drop();
                            self->linger();
                          });
}

void Connection::drop() {
  if (state_ == State::closed) return;
  state_ = State::closed;
  clear_deadline(read_timer_);
  clear_deadline(write_timer_);
  beast::error_code ignored;
  socket_.close(ignored);
  if (const auto exchange = exchange_.lock()) exchange->peer_closed();
  exchange_.reset();
}

void Connection::close_soon() {
  asio::post(strand_, [self = shared_from_this()] {
    self->closes_soon_ = true;
    if (self->state_ == State::idle || self->state_ == State::reading) self->drop();
  });
}

void Connection::close_now() {
  asio::post(strand_, [self = shared_from_this()] { self->drop(); });
}

}  // namespace splitwave::serve
