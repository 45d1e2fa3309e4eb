// An engine that is honest alone and goes wrong in company: the seeded faults as far as a fake
// engine can have them, each by its own rule and only in steps of several rows. Logits come from
// the fake engine; what a fault does is to give a row another row's history or a stale one. For
// the gate's own test.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "model/engine.h"
#include "serve/fake_engine.h"

namespace splitwave::test {

class FaultyEngine final : public model::Engine {
 public:
  FaultyEngine(const serve::test::FakeOptions& options, model::SeededFault fault,
               std::uint64_t seed)
      : inner_(options),
        fault_(fault),
        rng_(seed),
        vocab_(static_cast<std::size_t>(options.vocab_size)) {}

  [[nodiscard]] const model::ModelConfig& config() const override { return inner_.config(); }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> description() const override {
    return inner_.description();
  }
  [[nodiscard]] Expected<model::SequenceId> open(std::span<const std::int32_t> prompt,
                                                 int* reused) override {
    return inner_.open(prompt, reused);
  }
  void close(model::SequenceId id) override { inner_.close(id); }
  [[nodiscard]] bool reserve(model::SequenceId id, int tokens) override {
    return inner_.reserve(id, tokens);
  }
  [[nodiscard]] int length(model::SequenceId id) const override { return inner_.length(id); }
  [[nodiscard]] model::KvUsage kv_usage() const override { return inner_.kv_usage(); }
  [[nodiscard]] std::vector<model::OperatorTime> take_profile() override {
    return inner_.take_profile();
  }

  [[nodiscard]] Status step(std::span<const model::StepRow> rows,
                            std::span<float> logits) override {
    const Status done = inner_.step(rows, logits);
    const std::size_t with_logits = logits.size() / vocab_;
    // Rare, as a race is: one step of several rows in about four.
    if (!done.ok() || with_logits < 2 || rng_.below(4) != 0) return done;
    const auto victim = rng_.below(static_cast<std::uint32_t>(with_logits));
    const auto other = (victim + 1) % static_cast<std::uint32_t>(with_logits);
    const auto row = [&](std::size_t i) { return logits.subspan(i * vocab_, vocab_); };
    switch (fault_) {
      case model::SeededFault::none:
        break;
      case model::SeededFault::swapped_pages:  // each has the other's history
        std::swap_ranges(row(victim).begin(), row(victim).end(), row(other).begin());
        break;
      case model::SeededFault::dropped_dependency: {  // the newest token is not seen
        const auto tokens = tokens_of(rows, victim);
        serve::test::FakeEngine::fill(tokens.first(tokens.size() - 1), row(victim));
        break;
      }
      case model::SeededFault::stale_stride:  // a row read one value to the side
        std::rotate(row(victim).begin(), row(victim).begin() + 1, row(victim).end());
        break;
      case model::SeededFault::shared_scratch:  // a few values of a neighbour
        std::copy_n(row(other).begin(), 16, row(victim).begin());
        break;
      case model::SeededFault::flipped_bit:
        row(victim).back() = -row(victim).back();
        break;
    }
    return done;
  }

 private:
  // The tokens of the row that gave the nth logits.
  [[nodiscard]] std::span<const std::int32_t> tokens_of(std::span<const model::StepRow> rows,
                                                        std::size_t nth) const {
    for (const model::StepRow& r : rows) {
      if (r.logits && nth-- == 0) return inner_.tokens_of(r.sequence);
    }
    return {};
  }

  serve::test::FakeEngine inner_;
  model::SeededFault fault_;
  Rng rng_;
  std::size_t vocab_;
};

}  // namespace splitwave::test
