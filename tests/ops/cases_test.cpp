// Every contract case of the operators on the CPU backend, with one worker and with three.
#include "runtime/ops_cases.h"

#include <gtest/gtest.h>

namespace splitwave {
namespace {

void expect_all_pass(const std::vector<OpsCase>& cases, int threads) {
  const auto memory = make_host_memory();
  OpsTarget target;
  target.options.backend = Backend::cpu;
  target.options.threads = threads;
  target.options.read_environment = false;
  target.memory = memory.get();
  ASSERT_FALSE(cases.empty());
  for (const OpsCase& one : cases) {
    EXPECT_EQ(one.run(target).failure, "") << describe(one);
  }
}

TEST(OpsCases, LogitsMatchTheDoubleReferenceAndDoNotDependOnTheBatch) {
  expect_all_pass(indexer_cases(false), 3);
}
TEST(OpsCases, TopKListsAreExact) { expect_all_pass(topk_cases(false), 1); }
TEST(OpsCases, TopKListsDoNotDependOnTheNumberOfWorkers) { expect_all_pass(topk_cases(false), 3); }
TEST(OpsCases, SelectGivesTheSlotsOfTheExactTopK) { expect_all_pass(select_cases(false), 2); }
TEST(OpsCases, CacheWritesGiveTheReferencesBytesAndTouchNothingElse) {
  expect_all_pass(cache_write_cases(false), 3);
}
TEST(OpsCases, TheCompressorGivesTheReferencesBits) { expect_all_pass(compressor_cases(false), 3); }

// A backend that loses one byte on the way: every case must notice, wherever the byte lies.
class CorruptingMemory final : public OpsMemory {
 public:
  explicit CorruptingMemory(std::size_t part) : part_(part) {}
  Expected<std::uint8_t*> to_backend(OpsArena& arena) override { return arena.data(); }
  Status from_backend(OpsArena& arena) override {
    arena.data()[arena.used_bytes() / 8 * part_ + 3] ^= 0x40;
    return {};
  }

 private:
  std::size_t part_;
};

TEST(OpsCases, OneByteChangedAnywhereFailsEveryKindOfCase) {
  for (std::size_t part = 0; part < 8; ++part) {
    CorruptingMemory memory(part);
    OpsTarget target;
    target.options.backend = Backend::cpu;
    target.options.threads = 1;
    target.memory = &memory;
    // Not select_cases: they take the backend's logits as given and judge the selection.
    for (auto* cases : {indexer_cases, topk_cases, cache_write_cases, compressor_cases}) {
      const OpsCase one = cases(false).front();
      EXPECT_NE(one.run(target).failure, "") << describe(one) << " part " << part;
    }
  }
}

}  // namespace
}  // namespace splitwave
