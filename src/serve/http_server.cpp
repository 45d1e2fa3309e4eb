// The listener: accepts up to a number of connections, runs the threads, and stops in order.
#include "serve/http_server.h"

#include <sys/socket.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "serve/http_connection.h"

namespace splitwave::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

class Server final : public HttpServer {
 public:
  Server(const HttpOptions& options, HttpHandler handler)
      : shared_(std::make_shared<HttpShared>()),
        acceptor_(asio::make_strand(io_)),
        pause_(acceptor_.get_executor()) {
    shared_->options = options;
    shared_->handler = std::move(handler);
    shared_->on_gone = [this](Connection* c) { forget(c); };
  }
  ~Server() override { stop(0); }

  [[nodiscard]] Status bind() {
    const HttpOptions& o = shared_->options;
    boost::system::error_code error;
    const auto address = asio::ip::make_address(o.address, error);
    if (error) return bad_input("listen address '" + o.address + "': not an IP address");
    const tcp::endpoint endpoint(address, static_cast<std::uint16_t>(o.port));
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return environment_error("cannot listen on " + o.address + ":" + std::to_string(o.port) +
                               ": " + error.message());
    }
    port_ = acceptor_.local_endpoint().port();
    return {};
  }

  void run() {
    asio::post(acceptor_.get_executor(), [this] { accept(); });
    for (int i = 0; i < shared_->options.threads; ++i) {
      threads_.emplace_back([this] { run_thread(); });
    }
  }

  [[nodiscard]] int port() const override { return port_; }
  [[nodiscard]] int connections() const override {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(connections_.size());
  }

  void stop_listening() override {
    asio::post(acceptor_.get_executor(), [this] {
      boost::system::error_code ignored;
      acceptor_.close(ignored);
      pause_.cancel();
    });
  }

  void stop(double seconds) override {
    if (threads_.empty()) return;
    shared_->is_stopping = true;
    stop_listening();
    for (const auto& c : all()) c->close_soon();
    {
      std::unique_lock lock(mutex_);
      gone_.wait_for(lock, std::chrono::duration<double>(seconds),
                     [this] { return connections_.empty(); });
    }
    for (const auto& c : all()) c->close_now();
    {
      std::unique_lock lock(mutex_);
      gone_.wait_for(lock, std::chrono::seconds(1), [this] { return connections_.empty(); });
    }
    io_.stop();
    for (std::thread& t : threads_) t.join();
    threads_.clear();
  }

 private:
  // An exception out of a handler (no memory) costs its connection, not the process.
  void run_thread() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception&) {
        continue;
      }
    }
  }

  void accept() {
    acceptor_.async_accept(asio::make_strand(io_.get_executor()),
                           [this](boost::system::error_code error, Connection::Socket socket) {
                             on_accept(error, std::move(socket));
                           });
  }

  void on_accept(boost::system::error_code error, Connection::Socket socket) {
    if (!acceptor_.is_open()) return;
    if (error) {  // out of descriptors, most likely: a pause instead of a spin
      pause_.expires_after(std::chrono::milliseconds(100));
      pause_.async_wait([this](boost::system::error_code) {
        if (acceptor_.is_open()) accept();
      });
      return;
    }
    std::shared_ptr<Connection> connection;
    {
      const std::lock_guard lock(mutex_);
      const auto limit = static_cast<std::size_t>(shared_->options.limits.connections_max);
      if (connections_.size() < limit) {
        connection = std::make_shared<Connection>(std::move(socket), shared_);
        connections_.emplace(connection.get(), connection);
      }
    }
    if (connection != nullptr) {
      connection->start();
    } else {
      turn_away(socket);
    }
    accept();
  }

  // One write that does not wait: the kernel's buffer is empty and takes it.
  static void turn_away(Connection::Socket& socket) {
    static constexpr std::string_view k_full =
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
        "Connection: close\r\n\r\n";
    const ssize_t sent =
        ::send(socket.native_handle(), k_full.data(), k_full.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    static_cast<void>(sent);
  }

  void forget(Connection* c) {
    const std::lock_guard lock(mutex_);
    connections_.erase(c);
    if (connections_.empty()) gone_.notify_all();
  }

  [[nodiscard]] std::vector<std::shared_ptr<Connection>> all() const {
    std::vector<std::shared_ptr<Connection>> result;
    const std::lock_guard lock(mutex_);
    for (const auto& [raw, weak] : connections_) {
      if (auto c = weak.lock()) result.push_back(std::move(c));
    }
    return result;
  }

  mutable std::mutex mutex_;
  std::condition_variable gone_;
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections_;
  std::shared_ptr<HttpShared> shared_;
  asio::io_context io_;
  // Its strand serialises accepting, pausing and closing.
  asio::basic_socket_acceptor<tcp, Connection::Strand> acceptor_;
  asio::basic_waitable_timer<std::chrono::steady_clock,
                             asio::wait_traits<std::chrono::steady_clock>, Connection::Strand>
      pause_;
  int port_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace

Expected<std::unique_ptr<HttpServer>> HttpServer::start(const HttpOptions& options,
                                                        HttpHandler handler) {
  auto server = std::make_unique<Server>(options, std::move(handler));
  if (Status bound = server->bind(); !bound.ok()) return bound.error();
  server->run();
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace splitwave::serve
