// The metrics by vLLM's names and buckets (vllm/v1/metrics/loggers.py), and three of our own.
#include "serve/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <mutex>

namespace splitwave::serve {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

const Buckets k_first_token_s = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                                 1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
const Buckets k_inter_token_s = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
                                 0.15,  0.2,    0.3,   0.4,  0.5,   0.75, 1,     2.5,
                                 5,     7.5,    10,    20,   40,    80};
const Buckets k_request_s = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                             30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
const Buckets k_iteration_tokens = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

// Resident bytes of this process; 0 where /proc has none.
double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double total_pages = 0;
  double resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

struct Metrics::Impl {
  explicit Impl(const std::string& model_name) : labels{{"model_name", model_name}} {}

  prometheus::Counter& counter(const std::string& name, const std::string& help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
  }
  prometheus::Gauge& gauge(const std::string& name, const std::string& help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
  }
  prometheus::Histogram& histogram(const std::string& name, const std::string& help,
                                   const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels,
                                                                                     buckets);
  }

  prometheus::Registry registry;
  prometheus::Labels labels;
  std::mutex mutex;  // of the two cache counters' last values and of responses
  std::int64_t prefix_queries = 0;
  std::int64_t prefix_hits = 0;
  std::map<int, prometheus::Counter*> responses;

  prometheus::Gauge& running = gauge("vllm:num_requests_running", "Requests in the batch.");
  prometheus::Gauge& waiting = gauge("vllm:num_requests_waiting", "Requests that wait.");
  prometheus::Gauge& kv_usage = gauge("vllm:kv_cache_usage_perc", "Used share of KV pages, 0..1.");
  prometheus::Counter& prompt_tokens =
      counter("vllm:prompt_tokens_total", "Prompt tokens of requests whose prompt was run.");
  prometheus::Counter& generation_tokens =
      counter("vllm:generation_tokens_total", "Tokens generated.");
  prometheus::Counter& preemptions =
      counter("vllm:num_preemptions_total", "Sequences that gave their pages back.");
  prometheus::Family<prometheus::Counter>& success = prometheus::BuildCounter()
                                                         .Name("vllm:request_success_total")
                                                         .Help("Requests that ended, by reason.")
                                                         .Register(registry);
  prometheus::Histogram& first_token_s =
      histogram("vllm:time_to_first_token_seconds", "Arrival to first token.", k_first_token_s);
  prometheus::Histogram& inter_token_s = histogram(
      "vllm:inter_token_latency_seconds", "One token to the next of a request.", k_inter_token_s);
  prometheus::Histogram& request_s =
      histogram("vllm:e2e_request_latency_seconds", "Arrival to end.", k_request_s);
  prometheus::Histogram& queue_s =
      histogram("vllm:request_queue_time_seconds", "Arrival to first scheduling.", k_request_s);
  prometheus::Histogram& iteration_tokens =
      histogram("vllm:iteration_tokens_total", "Tokens of one step.", k_iteration_tokens);
  prometheus::Counter& queries =
      counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up.");
  prometheus::Counter& hits = counter("vllm:prefix_cache_hits_total", "Of them, found.");
  prometheus::Counter& step_seconds =
      counter("splitwave:step_seconds_total", "Time in the engine's steps.");
  prometheus::Gauge& steps = gauge("splitwave:steps", "Engine steps since the start.");
  prometheus::Gauge& resident =
      gauge("process_resident_memory_bytes", "Resident memory of the server.");
  prometheus::Family<prometheus::Counter>& http = prometheus::BuildCounter()
                                                      .Name("splitwave:http_responses_total")
                                                      .Help("HTTP responses by status.")
                                                      .Register(registry);
};

Metrics::Metrics(const std::string& model_name) : impl_(std::make_unique<Impl>(model_name)) {
  for (const FinishReason reason :
       {FinishReason::stop, FinishReason::length, FinishReason::cancelled}) {
    prometheus::Labels labels = impl_->labels;
    labels["finished_reason"] = name_of(reason);
    impl_->success.Add(labels);
  }
}
Metrics::~Metrics() = default;

void Metrics::on_first_token(double since_arrival_s, double queue_s, int prompt_tokens) {
  impl_->prompt_tokens.Increment(prompt_tokens);  // once, also after a preemption
  impl_->first_token_s.Observe(since_arrival_s);
  impl_->queue_s.Observe(queue_s);
}

void Metrics::on_next_token(double since_last_s) { impl_->inter_token_s.Observe(since_last_s); }

void Metrics::on_end(const GenerationEnd& end, double since_arrival_s) {
  impl_->request_s.Observe(since_arrival_s);
  prometheus::Labels labels = impl_->labels;
  labels["finished_reason"] = name_of(end.reason);
  impl_->success.Add(labels).Increment();
}

void Metrics::on_step(const StepReport& report) {
  impl_->generation_tokens.Increment(report.generated_tokens);
  if (report.preemptions > 0) impl_->preemptions.Increment(report.preemptions);
  if (report.tokens() > 0) impl_->iteration_tokens.Observe(report.tokens());
  impl_->step_seconds.Increment(report.step_s);
}

void Metrics::on_response(int http_status) {
  const std::lock_guard lock(impl_->mutex);
  prometheus::Counter*& counter = impl_->responses[http_status];
  if (counter == nullptr) {
    counter = &impl_->http.Add({{"code", std::to_string(http_status)}});
  }
  counter->Increment();
}

std::string Metrics::render(const LoopSnapshot& snapshot) {
  impl_->running.Set(snapshot.running);
  impl_->waiting.Set(snapshot.waiting);
  impl_->steps.Set(static_cast<double>(snapshot.steps));
  impl_->resident.Set(resident_bytes());
  const model::KvUsage& kv = snapshot.kv;
  impl_->kv_usage.Set(kv.pages_total > 0
                          ? static_cast<double>(kv.pages_used) / static_cast<double>(kv.pages_total)
                          : 0);
  {
    const std::lock_guard lock(impl_->mutex);
    // A scrape may carry an older snapshot than the last one: a counter never goes back.
    if (kv.prefix_queries_tokens > impl_->prefix_queries) {
      impl_->queries.Increment(
          static_cast<double>(kv.prefix_queries_tokens - impl_->prefix_queries));
      impl_->prefix_queries = kv.prefix_queries_tokens;
    }
    if (kv.prefix_hits_tokens > impl_->prefix_hits) {
      impl_->hits.Increment(static_cast<double>(kv.prefix_hits_tokens - impl_->prefix_hits));
      impl_->prefix_hits = kv.prefix_hits_tokens;
    }
  }
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace splitwave::serve
