// A deterministic engine for tests of the scheduler and the server: logits are a hash of the
// sequence's own tokens, pages are counted, and every clause of engine.h that a caller could break
// is checked. Not part of the product.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "model/engine.h"

namespace splitwave::serve::test {

struct FakeOptions {
  int vocab_size = 64;
  int sequences_max = 128;
  int tokens_per_step_max = 4096;
  std::int64_t pages_total = 1 << 20;
  int page_tokens = 4;
  int reused_prefix = 0;           // open() claims that many tokens of a longer prompt
  std::int32_t poison_token = -1;  // a step with this token in a row fails
  std::chrono::microseconds step_delay{0};
};

class FakeEngine final : public model::Engine {
 public:
  explicit FakeEngine(const FakeOptions& options) : options_(options) {
    config_.vocab_size = options.vocab_size;
    config_.eos_token = 1;
  }

  [[nodiscard]] const model::ModelConfig& config() const override { return config_; }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> description() const override {
    return {{"backend", "fake"}, {"batch_dependent", "false"}};
  }

  [[nodiscard]] Expected<model::SequenceId> open(std::span<const std::int32_t> prompt,
                                                 int* reused) override {
    if (static_cast<int>(open_.size()) >= options_.sequences_max) {
      return bad_input("sequences_max are open");
    }
    Sequence s;
    *reused = std::min(options_.reused_prefix, static_cast<int>(prompt.size()) - 1);
    s.tokens.assign(prompt.begin(), prompt.begin() + *reused);
    const std::int64_t pages = pages_for(*reused);
    if (used_ + pages > options_.pages_total) return bad_input("no page for the prefix");
    s.pages = pages;
    used_ += pages;
    open_.emplace(next_, std::move(s));
    return next_++;
  }

  void close(model::SequenceId id) override {
    const auto at = open_.find(id);
    SPLITWAVE_CHECK(at != open_.end(), "close of a sequence that is not open");
    used_ -= at->second.pages;
    open_.erase(at);
  }

  [[nodiscard]] bool reserve(model::SequenceId id, int tokens) override {
    Sequence& s = at(id);
    const std::int64_t pages = pages_for(static_cast<int>(s.tokens.size()) + tokens);
    if (pages <= s.pages) return true;
    if (used_ + pages - s.pages > options_.pages_total) return false;
    used_ += pages - s.pages;
    s.pages = pages;
    return true;
  }

  [[nodiscard]] int length(model::SequenceId id) const override {
    return static_cast<int>(open_.at(id).tokens.size());
  }

  [[nodiscard]] Status step(std::span<const model::StepRow> rows,
                            std::span<float> logits) override {
    int tokens = 0;
    std::size_t with_logits = 0;
    for (const model::StepRow& row : rows) {
      Sequence& s = at(row.sequence);
      SPLITWAVE_CHECK(!row.tokens.empty(), "a row without tokens");
      SPLITWAVE_CHECK(pages_for(static_cast<int>(s.tokens.size() + row.tokens.size())) <= s.pages,
                      "tokens that were not reserved");
      tokens += static_cast<int>(row.tokens.size());
      with_logits += row.logits ? 1 : 0;
      for (const std::int32_t t : row.tokens) {
        SPLITWAVE_CHECK(t >= 0 && t < options_.vocab_size, "a token outside the vocabulary");
        if (t == options_.poison_token) return environment_error("poisoned token");
      }
    }
    SPLITWAVE_CHECK(tokens <= options_.tokens_per_step_max, "more tokens than a step takes");
    const auto vocab = static_cast<std::size_t>(options_.vocab_size);
    SPLITWAVE_CHECK(logits.size() == with_logits * vocab, "logits of another size");
    if (on_step) on_step(rows);
    if (options_.step_delay.count() > 0) std::this_thread::sleep_for(options_.step_delay);
    std::size_t next = 0;
    for (const model::StepRow& row : rows) {
      Sequence& s = at(row.sequence);
      s.tokens.insert(s.tokens.end(), row.tokens.begin(), row.tokens.end());
      if (row.logits) fill(s.tokens, logits.subspan(vocab * next++, vocab));
    }
    ++steps;
    return {};
  }

  [[nodiscard]] model::KvUsage kv_usage() const override {
    return {options_.pages_total, used_, 0, 0};
  }
  [[nodiscard]] std::vector<model::OperatorTime> take_profile() override {
    return {{"attention", 2, 0.5}, {"experts", 1, 0.25}};
  }

  // What a caller that runs the prompt alone, token by token, would get.
  static void fill(std::span<const std::int32_t> tokens, std::span<float> logits) {
    std::uint64_t h = 0x1234;
    for (const std::int32_t t : tokens) {
      h = (h ^ static_cast<std::uint64_t>(t + 1)) * 0x9e3779b97f4a7c15ULL;
      h ^= h >> 29;
    }
    for (float& logit : logits) {
      h = h * 6364136223846793005ULL + 1442695040888963407ULL;
      logit = static_cast<float>(h >> 40) * 0x1p-22F - 2.0F;  // [-2, 2)
    }
  }

  [[nodiscard]] std::size_t open_count() const { return open_.size(); }
  [[nodiscard]] const std::vector<std::int32_t>& tokens_of(model::SequenceId id) const {
    return open_.at(id).tokens;
  }

  std::function<void(std::span<const model::StepRow>)> on_step;
  std::atomic<int> steps{0};

 private:
  struct Sequence {
    std::vector<std::int32_t> tokens;
    std::int64_t pages = 0;
  };
  [[nodiscard]] Sequence& at(model::SequenceId id) {
    const auto found = open_.find(id);
    SPLITWAVE_CHECK(found != open_.end(), "a sequence that is not open");
    return found->second;
  }
  [[nodiscard]] std::int64_t pages_for(int tokens) const {
    return (tokens + options_.page_tokens - 1) / options_.page_tokens;
  }

  FakeOptions options_;
  model::ModelConfig config_;
  std::map<model::SequenceId, Sequence> open_;
  model::SequenceId next_ = 0;
  std::int64_t used_ = 0;
};

}  // namespace splitwave::serve::test
