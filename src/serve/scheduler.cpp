// The scheduler's step, in the order in which it happens.
#include "serve/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace splitwave::serve {
namespace {

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

struct Scheduler::Sequence {
  GenerationRequest request;
  std::int64_t ticket = 0;
  Clock::time_point arrival;
  Clock::time_point last_token;
  double queue_s = -1;               // until it first ran
  std::vector<std::int32_t> tokens;  // prompt and generated
  model::SequenceId id = -1;         // open while running
  int computed = 0;                  // leading tokens in the KV cache
  int cached_tokens = 0;             // of the first admission
  int generated = 0;
  bool was_preempted = false;  // and waits for that reason
  bool is_finished = false;
  FinishReason reason = FinishReason::stop;
  std::string message;

  [[nodiscard]] int remaining() const { return static_cast<int>(tokens.size()) - computed; }
  [[nodiscard]] bool decodes() const { return generated > 0 && remaining() == 1; }
  void end(FinishReason why, std::string words = {}) {
    is_finished = true;
    reason = why;
    message = std::move(words);
  }
};

Scheduler::Scheduler(model::Engine& engine, const SchedulerOptions& options,
                     SchedulerObserver* observer)
    : engine_(engine), options_(options), observer_(observer) {
  SPLITWAVE_CHECK(options.sequences_max >= 1 && options.prefill_tokens_min >= 1 &&
                      options.sequences_max + options.prefill_tokens_min <= options.tokens_per_step,
                  "tokens_per_step must hold sequences_max and prefill_tokens_min");
}

Scheduler::~Scheduler() { end_all(FinishReason::cancelled, "the server stopped"); }

bool Scheduler::submit(GenerationRequest request, Clock::time_point arrival) {
  if (waiting_new() >= options_.waiting_max) return false;
  SPLITWAVE_CHECK(!request.prompt.empty() && request.max_tokens >= 1 && request.sink != nullptr,
                  "a request needs a prompt, max_tokens and a sink");
  auto sequence = std::make_unique<Sequence>();
  sequence->tokens = request.prompt;
  sequence->request = std::move(request);
  sequence->ticket = next_ticket_++;
  sequence->arrival = arrival;
  waiting_.push_back(std::move(sequence));
  return true;
}

StepReport Scheduler::step() {
  StepReport report;
  const Clock::time_point now = Clock::now();
  drop_ended(now);
  admit(now);
  rows_.clear();
  row_sequences_.clear();
  plan_decodes(report);
  plan_prefills(report);
  if (!rows_.empty()) run_rows(report);
  remove_finished();
  return report;
}

void Scheduler::drop_ended(Clock::time_point now) {
  const auto check = [&](Sequence& s) {
    if (s.request.cancelled != nullptr && s.request.cancelled->load(std::memory_order_relaxed)) {
      s.end(FinishReason::cancelled);
    } else if (now >= s.request.deadline) {
      s.end(FinishReason::timeout, "the request took longer than the server allows");
    }
  };
  for (const SequencePtr& s : running_) check(*s);
  remove_finished();
  for (std::size_t i = 0; i < waiting_.size();) {
    check(*waiting_[i]);
    if (!waiting_[i]->is_finished) {
      ++i;
      continue;
    }
    SequencePtr s = std::move(waiting_[i]);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    if (s->was_preempted) --preempted_waiting_;
    const FinishReason reason = s->reason;
    const std::string message = s->message;
    finish(std::move(s), reason, message);
  }
}

void Scheduler::admit(Clock::time_point now) {
  while (!waiting_.empty() && running() < options_.sequences_max) {
    if (pool_is_full_ && !running_.empty()) return;
    if (!admit_front(now)) {
      pool_is_full_ = true;
      if (!running_.empty()) return;
      // Nothing else holds pages: it will never fit.
      SequencePtr s = std::move(waiting_.front());
      waiting_.pop_front();
      if (s->was_preempted) --preempted_waiting_;
      const std::string message = s->message;
      finish(std::move(s), FinishReason::error, message);
    }
  }
}

// False: the pool has no room for its tokens.
bool Scheduler::admit_front(Clock::time_point now) {
  Sequence& s = *waiting_.front();
  int reused = 0;
  const Expected<model::SequenceId> id = engine_.open(s.tokens, &reused);
  if (!id.ok()) {
    s.message = id.error().message;
    return false;
  }
  if (!engine_.reserve(*id, static_cast<int>(s.tokens.size()) - reused)) {
    engine_.close(*id);
    s.message = std::to_string(s.tokens.size()) + " tokens do not fit the KV pool";
    return false;
  }
  s.id = *id;
  s.computed = reused;
  if (s.was_preempted) {
    s.was_preempted = false;
    --preempted_waiting_;
  } else {
    s.cached_tokens = reused;
    s.queue_s = seconds_between(s.arrival, now);
  }
  const auto at = std::upper_bound(
      running_.begin(), running_.end(), s.ticket,
      [](std::int64_t ticket, const SequencePtr& other) { return ticket < other->ticket; });
  running_.insert(at, std::move(waiting_.front()));
  waiting_.pop_front();
  return true;
}

void Scheduler::preempt_youngest(StepReport& report) {
  SequencePtr s = std::move(running_.back());
  running_.pop_back();
  engine_.close(s->id);
  s->id = -1;
  s->computed = 0;
  s->was_preempted = true;
  ++preempted_waiting_;
  ++report.preemptions;
  pool_is_full_ = true;
  const auto at = std::upper_bound(
      waiting_.begin(), waiting_.end(), s->ticket,
      [](std::int64_t ticket, const SequencePtr& other) { return ticket < other->ticket; });
  waiting_.insert(at, std::move(s));
}

void Scheduler::plan_decodes(StepReport& report) {
  // Oldest first: only younger sequences, which have no row yet, are preempted for one.
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Sequence* const s = running_[i].get();
    if (!s->decodes()) continue;
    while (i < running_.size() && !engine_.reserve(s->id, 1)) preempt_youngest(report);
    if (i >= running_.size()) return;  // it was the youngest itself
    rows_.push_back({s->id, std::span<const std::int32_t>(s->tokens).last(1), true});
    row_sequences_.push_back(s);
    ++report.decode_rows;
  }
}

void Scheduler::plan_prefills(StepReport& report) {
  int budget = options_.tokens_per_step - report.decode_rows;
  for (const SequencePtr& s : running_) {
    if (s->decodes() || budget == 0) continue;
    const int count = std::min(s->remaining(), budget);
    const auto tokens = std::span<const std::int32_t>(s->tokens).subspan(
        static_cast<std::size_t>(s->computed), static_cast<std::size_t>(count));
    rows_.push_back({s->id, tokens, count == s->remaining()});
    row_sequences_.push_back(s.get());
    ++report.prefill_rows;
    report.prefill_tokens += count;
    budget -= count;
  }
}

void Scheduler::run_rows(StepReport& report) {
  const auto vocab = static_cast<std::size_t>(engine_.config().vocab_size);
  std::size_t logit_rows = 0;
  for (const model::StepRow& row : rows_) logit_rows += row.logits ? 1 : 0;
  if (logits_.size() < logit_rows * vocab) logits_.resize(logit_rows * vocab);
  const Clock::time_point start = Clock::now();
  const std::span<float> logits(logits_.data(), logit_rows * vocab);
  if (const Status status = engine_.step(rows_, logits); !status.ok()) {
    run_rows_alone();
  }
  report.step_s = seconds_between(start, Clock::now());
  std::size_t next = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    Sequence& s = *row_sequences_[i];
    const std::size_t at = next;
    next += rows_[i].logits ? 1 : 0;
    if (s.is_finished) continue;  // its row failed
    s.computed += static_cast<int>(rows_[i].tokens.size());
    if (rows_[i].logits) deliver(s, logits.subspan(at * vocab, vocab), report);
  }
}

// A failed step left every sequence as it was: the row that cannot run is found and ended, the
// others lose nothing but time.
void Scheduler::run_rows_alone() {
  const auto vocab = static_cast<std::size_t>(engine_.config().vocab_size);
  std::size_t next = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const std::span<float> logits(logits_.data() + next * vocab, rows_[i].logits ? vocab : 0);
    next += rows_[i].logits ? 1 : 0;
    const Status status = engine_.step(std::span(&rows_[i], 1), logits);
    if (!status.ok()) row_sequences_[i]->end(FinishReason::error, status.error().message);
  }
}

void Scheduler::deliver(Sequence& s, std::span<const float> logits, StepReport& report) {
  const GenerationRequest& request = s.request;
  const SamplingOptions& sampling = request.sampling;
  GeneratedToken out;
  out.index = s.generated;
  const bool may_end = !sampling.ignore_eos && s.generated >= sampling.min_tokens;
  if (static_cast<std::size_t>(s.generated) < request.forced_tokens.size()) {
    out.token = request.forced_tokens[static_cast<std::size_t>(s.generated)];
  } else {
    const bool masks_ends = s.generated < sampling.min_tokens;
    out.token = sampler_.sample(logits, sampling, s.generated,
                                masks_ends ? std::span<const std::int32_t>(request.end_tokens)
                                           : std::span<const std::int32_t>());
  }
  if (sampling.top_logprobs >= 0) {
    sampler_.logprobs(logits, out.token, sampling.top_logprobs, out);
  }
  if (sampling.hashes_logits) out.logits_hash = hash_logits(logits);
  out.is_end = may_end && std::find(request.end_tokens.begin(), request.end_tokens.end(),
                                    out.token) != request.end_tokens.end();
  s.tokens.push_back(out.token);
  ++s.generated;
  ++report.generated_tokens;
  const Clock::time_point now = Clock::now();
  if (observer_ != nullptr) {
    if (s.generated == 1) {
      observer_->on_first_token(seconds_between(s.arrival, now), s.queue_s,
                                static_cast<int>(request.prompt.size()));
    } else {
      observer_->on_next_token(seconds_between(s.last_token, now));
    }
  }
  s.last_token = now;
  const bool sink_is_done = request.sink->on_token(out);
  if (out.is_end || sink_is_done) {
    s.end(FinishReason::stop);
  } else if (s.generated >= request.max_tokens) {
    s.end(FinishReason::length);
  }
}

void Scheduler::finish(SequencePtr s, FinishReason reason, const std::string& message) {
  if (s->id >= 0) {
    engine_.close(s->id);
    pool_is_full_ = false;
  }
  const GenerationEnd end{reason, message, static_cast<int>(s->request.prompt.size()),
                          s->cached_tokens, s->generated};
  if (observer_ != nullptr) observer_->on_end(end, seconds_between(s->arrival, Clock::now()));
  s->request.sink->on_end(end);
}

void Scheduler::remove_finished() {
  for (std::size_t i = 0; i < running_.size();) {
    if (!running_[i]->is_finished) {
      ++i;
      continue;
    }
    SequencePtr s = std::move(running_[i]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    const FinishReason reason = s->reason;
    const std::string message = s->message;
    finish(std::move(s), reason, message);
  }
}

void Scheduler::end_all(FinishReason reason, const std::string& message) {
  for (const SequencePtr& s : running_) s->end(reason, message);
  remove_finished();
  while (!waiting_.empty()) {
    SequencePtr s = std::move(waiting_.front());
    waiting_.pop_front();
    finish(std::move(s), reason, message);
  }
  preempted_waiting_ = 0;
}

}  // namespace splitwave::serve
