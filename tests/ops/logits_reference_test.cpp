// The double reference of the logits, and a gate that a single dropped product fails.
#include "formats/ops_indexer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "formats/ops_rows.h"
#include "ops/random.h"

namespace splitwave {
namespace {

using testing_ops::normal_bf16;
using testing_ops::normal_floats;
using testing_ops::Random;

// Two rows over a pool of three pages of 4 keys, fp8.
struct Small {
  IndexerSpec spec;
  LogitsCall call;
  std::vector<std::uint8_t> pool, q;
  std::vector<float> weights, logits;
  std::vector<std::int32_t> pages{2, 0, 7, 1, -1, 0}, lengths{9, 3};

  Small() : pool(3 * 544), logits(2 * 12, std::bit_cast<float>(0xDEADBEEFU)) {
    Random random(5);
    spec.heads = 8;
    spec.length_max = 12;
    const auto keys = normal_bf16(random, 12 * 128);
    for (int slot = 0; slot < 12; ++slot) {
      const SlotBytes at = planar_slot_bytes(slot, 4, 544, 128, 4);
      quantise_indexer_row(IndexerFormat::fp8, ScaleRounding::exact, keys.data() + slot * 128,
                           pool.data() + at.values, pool.data() + at.scales);
    }
    q.resize(2 * 8 * 128);
    for (auto& code : q)
      code = static_cast<std::uint8_t>(random.below(0x7F) | (random.below(2) << 7));
    weights = normal_floats(random, 16);
    call.rows = 2;
    call.q = q.data();
    call.q_row_stride_bytes = 8 * 128;
    call.weights = weights.data();
    call.weights_row_stride = 8;
    call.keys = {pool.data(), 3, 4, 544};
    call.key_pages = {pages.data(), 3};
    call.lengths = lengths.data();
    call.logits = logits.data();
    call.logits_row_stride = 12;
  }
  void fill_from(const ReferenceLogits& reference) {
    for (int r = 0; r < 2; ++r) {
      for (int j = 0; j < lengths[r]; ++j) {
        logits[r * 12 + j] = static_cast<float>(reference.logits[r * 12 + j]);
      }
    }
  }
};

TEST(ReferenceLogits, FollowsThePageTableAndMarksAbsentPages) {
  Small s;
  const auto reference = reference_logits(s.spec, s.call);
  EXPECT_TRUE(std::isnan(reference.logits[8]));  // page 7 of 3
  std::swap(s.pages[0], s.pages[1]);
  const auto swapped = reference_logits(s.spec, s.call);
  for (int j = 0; j < 4; ++j) EXPECT_EQ(reference.logits[j], swapped.logits[4 + j]);
}

TEST(CompareLogits, AcceptsTheReferenceAndRefusesOneWrongColumn) {
  Small s;
  const auto reference = reference_logits(s.spec, s.call);
  s.fill_from(reference);
  EXPECT_TRUE(compare_logits(s.spec, s.call, reference, 0xDEADBEEFU).ok);
  const float kept = s.logits[5];
  s.logits[5] += static_cast<float>(reference.magnitudes[5] * 1e-4);
  EXPECT_FALSE(compare_logits(s.spec, s.call, reference, 0xDEADBEEFU).ok);
  s.logits[5] = std::nanf("");
  EXPECT_FALSE(compare_logits(s.spec, s.call, reference, 0xDEADBEEFU).ok);
  s.logits[5] = kept;
  s.logits[12 + 3] = 0;  // past row 1's length
  EXPECT_FALSE(compare_logits(s.spec, s.call, reference, 0xDEADBEEFU).ok);
}

TEST(ReferenceLogits, ANanWeightOrKeyReachesItsOwnLogitsOnly) {
  Small s;
  s.pool[2 * 544 + 130] = 0x7F;  // page 2, offset 1: key 1 of row 0, nobody's in row 1
  const auto reference = reference_logits(s.spec, s.call);
  for (int j = 0; j < 8; ++j) EXPECT_EQ(std::isnan(reference.logits[j]), j == 1) << j;
  for (int j = 0; j < 3; ++j) EXPECT_FALSE(std::isnan(reference.logits[12 + j])) << j;
}

}  // namespace
}  // namespace splitwave
