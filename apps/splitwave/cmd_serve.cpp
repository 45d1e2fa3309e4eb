// splitwave serve: the OpenAI-compatible server. Flags, signals and printing only.
#include <csignal>
#include <cstdio>

#include "base/json_writer.h"
#include "measure/build_info.h"
#include "serve/server.h"
#include "serve_config.h"

namespace splitwave::app {
namespace {

void print_start(const CommandContext& context, const serve::ServerConfig& config, int port) {
  const std::string address = config.listen.substr(0, config.listen.rfind(':'));
  const std::string url = "http://" + address + ":" + std::to_string(port);
  if (context.json) {
    JsonWriter json;
    json.begin_object().field("url", url).field("port", port).field("model", config.model);
    json.end_object();
    std::fputs(json.str().c_str(), stdout);
  } else {
    std::printf("serving %s on %s (plan \"%s\"); SIGTERM drains, a second one ends at once\n",
                config.model.c_str(), url.c_str(), config.engine.plan.c_str());
  }
  std::fflush(stdout);
}

void serve_until_signal(CommandContext& context, const CLI::App& command,
                        const ServeArguments& arguments) {
  auto resolved = resolve_serve(arguments);
  if (!resolved.ok()) return fail(context, command, resolved.error());
  // Blocked before any thread starts: every thread inherits it and sigwait below is the only
  // receiver.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  auto served = serve::load_served_model(resolved->config, resolved->state_dir);
  if (!served.ok()) return fail(context, command, served.error());
  const auto& build = measure::build_info();
  auto server = serve::Server::start(resolved->config, std::move(served->engine),
                                     std::move(served->tokenizer),
                                     std::string(build.version) + " (" + build.commit + ")");
  if (!server.ok()) return fail(context, command, server.error());
  print_start(context, resolved->config, (*server)->port());
  int signal = 0;
  sigwait(&signals, &signal);
  std::fprintf(stderr, "splitwave serve: draining for at most %d s\n", resolved->config.drain_s);
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGINT, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  if (!(*server)->drain_and_stop()) {
    std::fprintf(stderr, "splitwave serve: the grace ran out; requests under way were ended\n");
  }
}

}  // namespace

void add_serve(CLI::App& root, CommandContext& context) {
  const auto arguments = std::make_shared<ServeArguments>();
  CLI::App* command = add_command(root, context, "serve", "serve a checkpoint over HTTP",
                                  "splitwave serve --model /tmp/tiny --listen 127.0.0.1:8000");
  add_config_flags(*command, arguments);
  command->callback(
      [&context, command, arguments] { serve_until_signal(context, *command, *arguments); });
}

}  // namespace splitwave::app
