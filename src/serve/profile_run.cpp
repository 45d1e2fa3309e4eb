// Prefill in chunks, forget its times, then the measured steps.
#include "serve/profile_run.h"

#include <algorithm>
#include <chrono>

#include "base/random.h"
#include "serve/profile_json.h"

namespace splitwave::serve {
namespace {

struct Row {
  model::SequenceId id = -1;
  std::vector<std::int32_t> prompt;
  std::int32_t next = 0;
};

Status prefill(model::Engine& engine, Row& row, int tokens_per_step) {
  int at = 0;
  const auto id = engine.open(row.prompt, &at);
  if (!id.ok()) return id.error();
  row.id = *id;
  const int size = static_cast<int>(row.prompt.size());
  if (!engine.reserve(row.id, size - at)) return bad_input("batch x context exceeds the KV pool");
  while (at < size) {
    const int count = std::min(tokens_per_step, size - at);
    const auto tokens = std::span<const std::int32_t>(row.prompt)
                            .subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count));
    const model::StepRow step{row.id, tokens, false};
    if (Status s = engine.step(std::span(&step, 1), {}); !s.ok()) return s;
    at += count;
  }
  return {};
}

}  // namespace

Expected<std::string> profile_engine(model::Engine& engine, const ProfileOptions& options,
                                     int tokens_per_step) {
  const auto vocab = static_cast<std::size_t>(engine.config().vocab_size);
  std::vector<Row> rows(static_cast<std::size_t>(options.batch));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Rng rng(options.seed, i);
    for (int t = 0; t < options.context_tokens; ++t) {
      rows[i].prompt.push_back(static_cast<std::int32_t>(rng.below(static_cast<uint32_t>(vocab))));
    }
    if (Status s = prefill(engine, rows[i], tokens_per_step); !s.ok()) return s.error();
  }
  (void)engine.take_profile();
  std::vector<float> logits(rows.size() * vocab);
  std::deque<StepSample> samples;
  for (int step = 0; step < options.steps; ++step) {
    std::vector<model::StepRow> batch;
    for (const Row& row : rows) {
      if (!engine.reserve(row.id, 1)) return bad_input("batch x context exceeds the KV pool");
      batch.push_back({row.id, std::span(&row.next, 1), true});
    }
    const Clock::time_point start = Clock::now();
    if (Status s = engine.step(batch, logits); !s.ok()) return s.error();
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    samples.push_back({step + 1, options.batch, 0, ms});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto first = logits.begin() + static_cast<std::ptrdiff_t>(i * vocab);
      rows[i].next = static_cast<std::int32_t>(
          std::max_element(first, first + static_cast<std::ptrdiff_t>(vocab)) - first);
    }
  }
  std::string json = profile_json(engine, samples);
  for (const Row& row : rows) engine.close(row.id);
  return json;
}

}  // namespace splitwave::serve
