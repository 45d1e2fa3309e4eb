// The scheduler against the fake engine: nothing lost or doubled, budget, fairness, preemption,
// cancellation, deadlines, failures.
#include "serve/scheduler.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "base/random.h"
#include "serve/collector.h"

namespace splitwave::serve {
namespace {

using test::Collector;
using test::FakeEngine;
using test::FakeOptions;

GenerationRequest make_request(Rng& rng, int prompt_max, int tokens_max, int vocab) {
  GenerationRequest r;
  const int length = 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(prompt_max)));
  for (int i = 0; i < length; ++i) {
    r.prompt.push_back(static_cast<std::int32_t>(rng.below(static_cast<std::uint32_t>(vocab))));
  }
  r.max_tokens = 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(tokens_max)));
  r.sampling.seed = rng.next();
  r.sampling.temperature = rng.below(2) == 0 ? 0 : 1;
  r.sampling.min_tokens = static_cast<int>(rng.below(3));
  r.sampling.ignore_eos = rng.below(2) == 0;
  r.end_tokens = {1};
  r.sink = std::make_shared<Collector>();
  r.cancelled = std::make_shared<std::atomic<bool>>(false);
  return r;
}

Collector& collector(const GenerationRequest& r) { return static_cast<Collector&>(*r.sink); }

// rapidcheck draws the seed; the scenario is made of it, with sizes that make preemption common.
RC_GTEST_PROP(Scheduler, LosesNothingDoublesNothingAndKeepsItsBudget, (std::uint64_t seed)) {
  Rng rng(seed);
  FakeOptions fake;
  fake.pages_total = 12 + rng.below(40);
  fake.reused_prefix = static_cast<int>(rng.below(6));
  SchedulerOptions options;
  options.sequences_max = 1 + static_cast<int>(rng.below(8));
  options.prefill_tokens_min = 1 + static_cast<int>(rng.below(8));
  options.tokens_per_step =
      options.sequences_max + options.prefill_tokens_min + static_cast<int>(rng.below(16));
  fake.tokens_per_step_max = options.tokens_per_step;
  FakeEngine engine(fake);
  Scheduler scheduler(engine, options, nullptr);
  std::vector<GenerationRequest> requests;
  // 20 prompt + 20 generated + reuse fit 12 pages of 4.
  for (int i = 0; i < 30; ++i) requests.push_back(make_request(rng, 20, 20, fake.vocab_size));
  std::size_t submitted = 0;
  int steps = 0;
  while (submitted < requests.size() || scheduler.has_work()) {
    while (submitted < requests.size() && rng.below(3) == 0) {
      RC_ASSERT(scheduler.submit(requests[submitted++], Clock::now()));
    }
    const StepReport report = scheduler.step();
    RC_ASSERT(report.tokens() <= options.tokens_per_step);
    RC_ASSERT(scheduler.running() <= options.sequences_max);
    RC_ASSERT(++steps < 20000);
  }
  for (const GenerationRequest& r : requests) {
    const Collector& c = collector(r);
    RC_ASSERT(c.ends == 1);
    RC_ASSERT(c.ids() == test::expected_tokens(r, fake));
    RC_ASSERT(c.end.generated_tokens == static_cast<int>(c.tokens.size()));
    RC_ASSERT(c.end.reason == FinishReason::stop || c.end.reason == FinishReason::length);
  }
  RC_ASSERT(engine.open_count() == 0U);
  RC_ASSERT(engine.kv_usage().pages_used == 0);
}

RC_GTEST_PROP(Scheduler, EveryDecodingSequenceGetsATokenAStepAndPromptsTheirShare,
              (std::uint64_t seed)) {
  Rng rng(seed);
  const FakeOptions fake;  // pages abound: nothing is preempted
  SchedulerOptions options;
  options.sequences_max = 8;
  options.prefill_tokens_min = 5;
  options.tokens_per_step = 13 + static_cast<int>(rng.below(10));
  FakeEngine engine(fake);
  std::map<model::SequenceId, int> decoded_at;  // step of the last generated token
  int step = 0;
  bool is_fair = true;
  engine.on_step = [&](std::span<const model::StepRow> rows) {
    for (const model::StepRow& row : rows) {
      const auto last = decoded_at.find(row.sequence);
      if (last != decoded_at.end() && last->second != step - 1) is_fair = false;
      if (row.logits) decoded_at[row.sequence] = step;
    }
  };
  Scheduler scheduler(engine, options, nullptr);
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 20; ++i) {
    requests.push_back(make_request(rng, 60, 15, fake.vocab_size));
    RC_ASSERT(scheduler.submit(requests.back(), Clock::now()));
  }
  while (scheduler.has_work()) {
    const StepReport report = scheduler.step();
    RC_ASSERT(is_fair);
    RC_ASSERT(report.preemptions == 0);
    // Prompts wait only when their share is used up.
    const bool full = report.tokens() == options.tokens_per_step;
    RC_ASSERT(full || report.prefill_rows + report.decode_rows >= 1);
    if (report.prefill_rows > 0 && !full) {
      RC_ASSERT(report.prefill_rows + report.decode_rows <= options.sequences_max);
    }
    if (full) RC_ASSERT(report.prefill_tokens >= options.prefill_tokens_min);
    ++step;
  }
}

TEST(Scheduler, PromptOfTheOldestIsDoneWithinTheFairnessBound) {
  const FakeOptions fake;
  SchedulerOptions options;
  options.sequences_max = 4;
  options.prefill_tokens_min = 8;
  options.tokens_per_step = 12;
  FakeEngine engine(fake);
  Scheduler scheduler(engine, options, nullptr);
  Rng rng(3);
  std::vector<GenerationRequest> decoding;
  for (int i = 0; i < 3; ++i) {
    decoding.push_back(make_request(rng, 1, 1, fake.vocab_size));
    decoding.back().max_tokens = 1000;
    decoding.back().sampling.ignore_eos = true;
    ASSERT_TRUE(scheduler.submit(decoding.back(), Clock::now()));
  }
  scheduler.step();
  GenerationRequest late = make_request(rng, 1, 1, fake.vocab_size);
  late.prompt.assign(100, 5);
  ASSERT_TRUE(scheduler.submit(late, Clock::now()));
  int steps = 0;
  while (collector(late).tokens.empty()) {
    scheduler.step();
    ASSERT_LE(++steps, (100 + options.prefill_tokens_min - 1) / options.prefill_tokens_min);
  }
}

TEST(Scheduler, PreemptionChangesNoTokenAndTheOldestNeverStops) {
  FakeOptions fake;
  fake.pages_total = 10;  // 40 tokens for three sequences that grow to 31 each
  FakeEngine engine(fake);
  SchedulerOptions options;
  options.sequences_max = 3;
  options.prefill_tokens_min = 4;
  options.tokens_per_step = 16;
  Scheduler scheduler(engine, options, nullptr);
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 3; ++i) {
    GenerationRequest r;
    r.prompt = {2, 3, 4 + i};
    r.max_tokens = 28;
    r.sampling.seed = static_cast<std::uint64_t>(i);
    r.sampling.ignore_eos = true;
    r.sink = std::make_shared<Collector>();
    requests.push_back(r);
    ASSERT_TRUE(scheduler.submit(r, Clock::now()));
  }
  int preemptions = 0;
  std::size_t last = 0;
  while (scheduler.has_work()) {
    preemptions += scheduler.step().preemptions;
    const std::size_t now = collector(requests[0]).tokens.size();
    if (collector(requests[0]).ends == 0) {
      ASSERT_EQ(now, last + 1) << "the oldest waited";
    }
    last = now;
  }
  EXPECT_GE(preemptions, 1);
  EXPECT_LE(preemptions, 6) << "thrashing";
  for (const GenerationRequest& r : requests) {
    EXPECT_EQ(collector(r).ids(), test::expected_tokens(r, fake));
    EXPECT_EQ(collector(r).end.reason, FinishReason::length);
  }
}

TEST(Scheduler, ACancelledRequestGivesItsPagesBackBeforeTheNextStep) {
  const FakeOptions fake;
  FakeEngine engine(fake);
  Scheduler scheduler(engine, {}, nullptr);
  Rng rng(1);
  GenerationRequest r = make_request(rng, 10, 1, fake.vocab_size);
  r.max_tokens = 1000;
  r.sampling.ignore_eos = true;
  ASSERT_TRUE(scheduler.submit(r, Clock::now()));
  scheduler.step();
  scheduler.step();
  const std::size_t before = collector(r).tokens.size();
  *r.cancelled = true;
  scheduler.step();
  EXPECT_EQ(collector(r).tokens.size(), before);
  EXPECT_EQ(collector(r).ends, 1);
  EXPECT_EQ(collector(r).end.reason, FinishReason::cancelled);
  EXPECT_EQ(engine.kv_usage().pages_used, 0);
  EXPECT_FALSE(scheduler.has_work());
}

TEST(Scheduler, ALateRequestEndsAsTimeoutWhetherItWaitsOrRuns) {
  const FakeOptions fake;
  FakeEngine engine(fake);
  SchedulerOptions options;
  options.sequences_max = 1;
  Scheduler scheduler(engine, options, nullptr);
  Rng rng(1);
  GenerationRequest runs = make_request(rng, 10, 1, fake.vocab_size);
  runs.max_tokens = 100000;
  runs.sampling.ignore_eos = true;
  GenerationRequest waits = runs;
  waits.sink = std::make_shared<Collector>();
  runs.deadline = waits.deadline = Clock::now() + std::chrono::milliseconds(20);
  ASSERT_TRUE(scheduler.submit(runs, Clock::now()));
  ASSERT_TRUE(scheduler.submit(waits, Clock::now()));
  while (scheduler.has_work()) scheduler.step();
  EXPECT_EQ(collector(runs).end.reason, FinishReason::timeout);
  EXPECT_EQ(collector(waits).end.reason, FinishReason::timeout);
  EXPECT_EQ(collector(waits).tokens.size(), 0U);
}

TEST(Scheduler, TheQueueIsBoundedAndPreemptedOnesDoNotCount) {
  const FakeOptions fake;
  FakeEngine engine(fake);
  SchedulerOptions options;
  options.waiting_max = 3;
  Scheduler scheduler(engine, options, nullptr);
  Rng rng(1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(scheduler.submit(make_request(rng, 5, 5, fake.vocab_size), Clock::now()));
  }
  EXPECT_FALSE(scheduler.submit(make_request(rng, 5, 5, fake.vocab_size), Clock::now()));
  scheduler.step();
  EXPECT_TRUE(scheduler.submit(make_request(rng, 5, 5, fake.vocab_size), Clock::now()));
}

TEST(Scheduler, ARowThatTheEngineRefusesEndsAloneAndItsNeighboursKeepTheirTokens) {
  FakeOptions fake;
  fake.poison_token = 63;
  FakeEngine engine(fake);
  Scheduler scheduler(engine, {}, nullptr);
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 5; ++i) {
    GenerationRequest r;
    r.prompt = {2, 3, i == 2 ? 63 : 7};
    r.prompt.push_back(i);
    r.max_tokens = 6;
    r.sampling.temperature = 0;
    r.sampling.ignore_eos = true;
    r.sink = std::make_shared<Collector>();
    requests.push_back(r);
    ASSERT_TRUE(scheduler.submit(r, Clock::now()));
  }
  while (scheduler.has_work()) scheduler.step();
  for (int i = 0; i < 5; ++i) {
    const Collector& c = collector(requests[static_cast<std::size_t>(i)]);
    EXPECT_EQ(c.ends, 1);
    if (i == 2) {
      EXPECT_EQ(c.end.reason, FinishReason::error);
      EXPECT_EQ(c.end.message, "poisoned token");
      continue;
    }
    const auto expected = test::expected_tokens(requests[static_cast<std::size_t>(i)], fake);
    if (std::find(expected.begin(), expected.end(), 63) == expected.end()) {
      EXPECT_EQ(c.ids(), expected);
    }
  }
}

TEST(Scheduler, ARequestThatCanNeverFitEndsWithAReason) {
  FakeOptions fake;
  fake.pages_total = 4;
  FakeEngine engine(fake);
  Scheduler scheduler(engine, {}, nullptr);
  GenerationRequest r;
  r.prompt.assign(17, 3);
  r.max_tokens = 1;
  r.sink = std::make_shared<Collector>();
  ASSERT_TRUE(scheduler.submit(r, Clock::now()));
  scheduler.step();
  EXPECT_EQ(collector(r).end.reason, FinishReason::error);
  EXPECT_NE(collector(r).end.message.find("17 tokens"), std::string::npos);
}

TEST(Scheduler, ForcedTokensAreTakenAsGivenAndSamplingGoesOnAfterThem) {
  const FakeOptions fake;
  FakeEngine engine(fake);
  Scheduler scheduler(engine, {}, nullptr);
  GenerationRequest r;
  r.prompt = {4, 5};
  r.max_tokens = 5;
  r.forced_tokens = {9, 1, 8};
  r.sampling.ignore_eos = true;
  r.sampling.hashes_logits = true;
  r.sampling.top_logprobs = 2;
  r.sink = std::make_shared<Collector>();
  ASSERT_TRUE(scheduler.submit(r, Clock::now()));
  while (scheduler.has_work()) scheduler.step();
  const Collector& c = collector(r);
  ASSERT_EQ(c.tokens.size(), 5U);
  std::vector<std::int32_t> first = c.ids();
  first.resize(3);
  EXPECT_EQ(first, r.forced_tokens);
  std::vector<float> logits(64);
  FakeEngine::fill(std::vector<std::int32_t>{4, 5, 9, 1}, logits);
  EXPECT_EQ(c.tokens[2].logits_hash, hash_logits(logits));
  EXPECT_EQ(c.tokens[2].top.size(), 2U);
}

TEST(Scheduler, AStopFromTheSinkEndsAfterThatToken) {
  const FakeOptions fake;
  FakeEngine engine(fake);
  Scheduler scheduler(engine, {}, nullptr);
  GenerationRequest r;
  r.prompt = {4, 5};
  r.max_tokens = 50;
  r.sampling.ignore_eos = true;
  const auto sink = std::make_shared<Collector>();
  sink->stop_after = 3;
  r.sink = sink;
  ASSERT_TRUE(scheduler.submit(r, Clock::now()));
  while (scheduler.has_work()) scheduler.step();
  EXPECT_EQ(sink->tokens.size(), 3U);
  EXPECT_EQ(sink->end.reason, FinishReason::stop);
}

}  // namespace
}  // namespace splitwave::serve
