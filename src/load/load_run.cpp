// One thread: libcurl moves the requests, this file starts them and reads the clock.
#include "load/load_run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <list>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/random.h"
#include "load/server_metrics.h"

namespace splitwave::load {
namespace {

using Json = nlohmann::json;

constexpr int k_turn_wait_ms = 20;
constexpr double k_scrape_interval_s = 0.25;
constexpr int k_error_examples_max = 5;

// Common words: about one token each in a large vocabulary.
constexpr std::array<std::string_view, 48> k_words = {
    "the",   "of",   "and",   "to",   "in",   "is",  "was",   "for",   "that", "on",
    "with",  "as",   "by",    "at",   "from", "his", "it",    "an",    "were", "are",
    "which", "this", "also",  "be",   "has",  "or",  "had",   "first", "one",  "their",
    "its",   "new",  "after", "but",  "who",  "not", "they",  "have",  "her",  "she",
    "two",   "been", "other", "when", "time", "all", "there", "into"};

void append_words(std::uint64_t seed, std::uint64_t stream, int count, std::string* text) {
  Rng rng(seed, stream);
  for (int i = 0; i < count; ++i) {
    *text += k_words[rng.below(static_cast<std::uint32_t>(k_words.size()))];
    *text += ' ';
  }
}

class Runner {
 public:
  explicit Runner(const LoadOptions& options) : options_(options) {}

  double now_s() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  double window_begin_s() const { return options_.warmup_s; }
  double window_end_s() const { return options_.warmup_s + options_.window_s; }

  void start(const std::string& prompt, int output_tokens) {
    const Json body = {{"model", options_.target.model},
                       {"prompt", prompt},
                       {"max_tokens", output_tokens},
                       {"temperature", 0},
                       {"stream", true},
                       {"stream_options", {{"include_usage", true}}},
                       {"ignore_eos", options_.ignore_eos}};
    const auto reader = std::make_shared<StreamReader>(now_s());
    ++in_flight_;
    loop_.start(
        {options_.target.url + "/v1/completions", body.dump(), options_.target.api_key,
         options_.request_timeout_s},
        [this, reader](std::string_view bytes) { reader->on_body(bytes, now_s()); },
        [this, reader](const HttpEnd& end) {
          --in_flight_;
          records_.push_back(reader->finish(end, now_s()));
        });
  }

  // Moves requests on and reads the server's counters now and then.
  void turn() {
    const double now = now_s();
    if (scrapes_ && now >= next_scrape_s_ && now >= window_begin_s()) {
      next_scrape_s_ = now + k_scrape_interval_s;
      scrape();
    }
    integrate_in_flight(now);
    loop_.turn(k_turn_wait_ms);
  }

  void drain() {
    while (in_flight_ > 0) loop_.turn(k_turn_wait_ms);
    loop_.abandon();  // a scrape at most
  }

  // Adds what was measured to a point.
  void report(int session, LoadPoint* point) const;

  int in_flight() const { return in_flight_; }
  std::size_t ended() const { return records_.size(); }
  const std::vector<StreamRecord>& records() const { return records_; }

 private:
  struct Scrape {
    double at_s = 0;
    StepCounters counters;
  };

  void scrape() {
    const auto body = std::make_shared<std::string>();
    scrapes_ = false;  // one at a time
    loop_.start(
        {options_.target.url + "/metrics", "", options_.target.api_key, 5},
        [body](std::string_view bytes) { *body += bytes; },
        [this, body](const HttpEnd& end) {
          const auto counters = read_step_counters(*body);
          if (!end.error.empty() || end.status != 200 || !counters) return;
          scrape_log_.push_back({now_s(), *counters});
          scrapes_ = true;
        });
  }

  void integrate_in_flight(double now) {
    const double from = std::clamp(last_turn_s_, window_begin_s(), window_end_s());
    const double to = std::clamp(now, window_begin_s(), window_end_s());
    in_flight_seconds_ += in_flight_ * (to - from);
    last_turn_s_ = now;
  }

  void report_steps(int session, LoadPoint* point) const;

  const LoadOptions& options_;
  HttpLoop loop_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::vector<StreamRecord> records_;
  std::vector<Scrape> scrape_log_;
  bool scrapes_ = true;
  double next_scrape_s_ = 0;
  double last_turn_s_ = 0;
  double in_flight_seconds_ = 0;
  int in_flight_ = 0;
};

void Runner::report_steps(int session, LoadPoint* point) const {
  for (std::size_t i = 1; i < scrape_log_.size(); ++i) {
    const Scrape& a = scrape_log_[i - 1];
    const Scrape& b = scrape_log_[i];
    const double steps = b.counters.steps - a.counters.steps;
    if (steps < 1 || b.at_s > window_end_s()) continue;
    const double seconds = b.counters.step_seconds
                               ? *b.counters.step_seconds - a.counters.step_seconds.value_or(0)
                               : b.at_s - a.at_s;
    point->samples.push_back({session, 1e3 * seconds / steps});
  }
  if (scrape_log_.size() >= 2) {
    const Scrape& first = scrape_log_.front();
    const Scrape& last = scrape_log_.back();
    point->step_hz = (last.counters.steps - first.counters.steps) / (last.at_s - first.at_s);
    point->step_source = "server";
  }
}

void Runner::report(int session, LoadPoint* point) const {
  const double from = window_begin_s();
  const double to = window_end_s();
  double tokens = 0;
  double prompt_tokens = 0;
  report_steps(session, point);
  for (const StreamRecord& r : records_) {
    if (!r.ok()) {
      ++point->errors;
      auto& examples = point->error_examples;
      if (std::ssize(examples) < k_error_examples_max &&
          std::find(examples.begin(), examples.end(), r.error) == examples.end()) {
        examples.push_back(r.error);
      }
      continue;
    }
    if (r.output_tokens == 0) continue;
    const auto inside = std::count_if(r.events_s.begin(), r.events_s.end(),
                                      [&](double at) { return at >= from && at < to; });
    tokens += double(r.output_tokens) * double(inside) / double(r.events_s.size());
    if (r.first_s() >= from && r.first_s() < to) prompt_tokens += r.prompt_tokens;
    if (r.end_s < from || r.end_s >= to) continue;
    ++point->requests;
    point->cached_prompt_tokens += r.cached_tokens;
    point->ttft_ms.push_back(1e3 * (r.first_s() - r.start_s));
    point->e2e_ms.push_back(1e3 * (r.end_s - r.start_s));
    if (r.output_tokens > 1) {
      const double tpot_ms = 1e3 * (r.last_s() - r.first_s()) / (r.output_tokens - 1);
      point->tpot_ms.push_back(tpot_ms);
      if (point->step_source != "server") {
        point->step_source = "tpot";
        point->samples.push_back({session, tpot_ms});
      }
    }
    for (std::size_t i = 1; i < r.events_s.size(); ++i) {
      point->itl_ms.push_back(1e3 * (r.events_s[i] - r.events_s[i - 1]));
    }
  }
  point->tok_s += tokens / options_.window_s / options_.sessions;
  point->prompt_tok_s += prompt_tokens / options_.window_s / options_.sessions;
  point->mean_in_flight += in_flight_seconds_ / options_.window_s / options_.sessions;
}

std::string prompt_of(const Arrival& arrival, std::uint64_t seed, std::uint64_t index) {
  std::string text;
  int left = arrival.prompt_tokens;
  for (const std::int64_t block : arrival.prefix_blocks) {
    const int count = std::min(left, k_trace_block_tokens);
    append_words(seed, static_cast<std::uint64_t>(block), count, &text);
    left -= count;
  }
  append_words(seed ^ 0x9E3779B97F4A7C15ULL, index, left, &text);
  return text;
}

}  // namespace

Expected<LoadTarget> resolve_target(const LoadTarget& target) {
  const auto answer = http_fetch({target.url + "/v1/models", "", target.api_key, 10});
  if (!answer) return answer.error();
  LoadTarget resolved = target;
  if (!target.model.empty()) return resolved;
  const Json json = Json::parse(answer->body, nullptr, false);
  const auto data = json.find("data");
  if (!json.is_object() || data == json.end() || !data->is_array() || data->empty() ||
      !data->front().is_object() || !data->front().contains("id") ||
      !data->front()["id"].is_string()) {
    return environment_error(target.url + "/v1/models: HTTP " + std::to_string(answer->status) +
                             " names no model; name one with --model");
  }
  resolved.model = data->front()["id"].get<std::string>();
  return resolved;
}

Expected<LoadPoint> run_closed_loop(const LoadOptions& options, int concurrency) {
  if (concurrency < 1 || concurrency > k_concurrency_in_flight_max) {
    return bad_input("concurrency: " + std::to_string(concurrency) + "; from 1 to " +
                     std::to_string(k_concurrency_in_flight_max));
  }
  // An address that nothing listens on is said at once, not after a whole point of errors.
  if (const auto target = resolve_target(options.target); !target) return target.error();
  LoadPoint point;
  point.concurrency = concurrency;
  std::uint64_t request = 0;
  for (int session = 0; session < options.sessions; ++session) {
    Runner runner(options);
    while (runner.now_s() < runner.window_end_s()) {
      while (runner.in_flight() < concurrency) {
        std::string prompt;
        // No two prompts of a run are the same, or the server's cache would be measured.
        const std::uint64_t stream = std::uint64_t(concurrency) << 40 | request++;
        append_words(options.seed, stream, options.prompt_tokens, &prompt);
        runner.start(prompt, options.output_tokens);
      }
      runner.turn();
    }
    runner.drain();
    runner.report(session, &point);
  }
  return point;
}

Expected<LoadPoint> run_open_loop(const LoadOptions& options, std::span<const Arrival> arrivals) {
  if (arrivals.empty()) return bad_input("the trace has no request in the window");
  // An address that nothing listens on is said at once, not after a whole point of errors.
  if (const auto target = resolve_target(options.target); !target) return target.error();
  LoadPoint point;
  Runner runner(options);
  std::size_t next = 0;
  while (runner.now_s() < runner.window_end_s()) {
    while (next < arrivals.size() && arrivals[next].at_s <= runner.now_s() &&
           runner.in_flight() < k_concurrency_in_flight_max) {
      runner.start(prompt_of(arrivals[next], options.seed, next), arrivals[next].output_tokens);
      ++next;
    }
    point.concurrency = std::max(point.concurrency, runner.in_flight());
    runner.turn();
  }
  runner.drain();
  runner.report(0, &point);
  return point;
}

std::vector<std::string> scaling_violations(std::span<const LoadPoint> points, double tolerance) {
  std::vector<std::string> out;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const LoadPoint& a = points[i - 1];
    const LoadPoint& b = points[i];
    if (b.concurrency <= a.concurrency || b.tok_s >= a.tok_s * (1 - tolerance)) continue;
    char text[160];
    std::snprintf(text, sizeof text, "C%d gives %.1f tok/s, C%d only %.1f (%.1f %% less)",
                  a.concurrency, a.tok_s, b.concurrency, b.tok_s, 100 * (1 - b.tok_s / a.tok_s));
    out.emplace_back(text);
  }
  return out;
}

}  // namespace splitwave::load
