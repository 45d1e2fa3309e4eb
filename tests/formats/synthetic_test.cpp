// Synthetic problems: their promises of content by row, of bounds, and of poison.
#include "formats/synthetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "formats/index_list.h"
#include "formats/kv_row.h"
#include "formats/reference_output.h"
#include "formats/synthetic_bits.h"

namespace splitwave {
namespace {

SyntheticOptions options(KvFormat format) {
  SyntheticOptions o;
  o.spec = {.format = format, .heads = 3, .main_width = 37, .extra_width = 20, .rows_max = 16};
  o.rows = 6;
  o.main_cache.page_size = 5;
  o.extra_cache = {.page_size = 1, .stride_pad_bytes = 24};
  o.main_list = {
      .lengths = LengthKind::ragged, .invalid = InvalidKind::scattered, .row_stride_pad = 3};
  o.extra_list = {.lengths = LengthKind::none, .invalid = InvalidKind::trailing};
  return o;
}
ReferenceResult decode(const SyntheticOptions& o) {
  const SyntheticProblem p(o);
  return reference_decode(p.spec(), p.call());
}
bool rows_equal(const ReferenceResult& a, std::size_t row_a, const ReferenceResult& b,
                std::size_t row_b, std::size_t heads) {
  return std::memcmp(&a.out[row_a * heads * 512], &b.out[row_b * heads * 512],
                     heads * 512 * sizeof(double)) == 0 &&
         std::memcmp(&a.lse[row_a * heads], &b.lse[row_b * heads], heads * sizeof(double)) == 0;
}

TEST(Synthetic, GivesARowTheSameContentAloneAndInEverySlot) {
  for (const KvFormat format : {KvFormat::v32, KvFormat::v4}) {
    SyntheticOptions o = options(format);
    o.row_ids = {10, 11, 7, 13, 14, 15};
    const ReferenceResult batch = decode(o);
    o.rows = 1;
    o.row_ids = {7};
    const ReferenceResult alone = decode(o);
    EXPECT_TRUE(rows_equal(batch, 2, alone, 0, 3));
    EXPECT_FALSE(rows_equal(batch, 1, alone, 0, 3));
  }
}

TEST(Synthetic, GivesTheSameContentWhereverTokensLie) {
  SyntheticOptions o = options(KvFormat::v4);
  const ReferenceResult scattered = decode(o);
  for (const Placement placement : {Placement::sequential, Placement::pages_permuted}) {
    o.main_cache.placement = o.extra_cache.placement = placement;
    o.placement_seed += 1;
    o.main_cache.page_size = 64;
    EXPECT_EQ(decode(o).out, scattered.out);
  }
}

TEST(Synthetic, IsDeterministicAndMovesWithTheSeed) {
  SyntheticOptions o = options(KvFormat::v32);
  const ReferenceResult once = decode(o);
  EXPECT_EQ(decode(o).out, once.out);
  o.seed = 2;
  EXPECT_NE(decode(o).out, once.out);
}

TEST(Synthetic, PlacesEveryTokenInItsOwnSlot) {
  for (const Placement placement :
       {Placement::sequential, Placement::pages_permuted, Placement::scattered}) {
    SyntheticOptions o = options(KvFormat::v4);
    o.main_list = {};
    o.main_cache.placement = placement;
    SyntheticProblem p(o);
    std::set<std::int32_t> slots;
    for (int row = 0; row < 6; ++row) {
      for (int i = 0; i < 37; ++i) slots.insert(list_entry(p.call().main_list, row, i));
    }
    EXPECT_EQ(slots.size(), 6U * 37U);
    EXPECT_GE(*slots.begin(), 0);
    EXPECT_LT(*slots.rbegin(), p.call().main_cache.pages * 5);
  }
}

TEST(Synthetic, FillsEveryByteThatNoRowMayUseWithPoison) {
  for (const KvFormat format : {KvFormat::v32, KvFormat::v4}) {
    SyntheticOptions o = options(format);
    SyntheticProblem p(o);
    const DecodeCall& call = p.call();
    std::set<std::int64_t> used;
    for (int row = 0; row < o.rows; ++row) {
      const int length = row_length(call.main_cache, call.main_list, 37, row);
      for (int i = 0; i < length; ++i) used.insert(list_entry(call.main_list, row, i));
    }
    int unused = 0;
    for (std::int64_t slot = 0; slot < call.main_cache.pages * 5; ++slot) {
      if (used.contains(slot)) continue;
      ++unused;
      std::vector<double> values(static_cast<std::size_t>(qk_dims(format)));
      dequantise_row(format, unpack_row(format, call.main_cache, slot), values);
      for (const double v : values) ASSERT_TRUE(std::isnan(v));
    }
    EXPECT_GT(unused, 5);
  }
}

TEST(Synthetic, PutsLiveLookingEntriesPastTheLengths) {
  SyntheticOptions o = options(KvFormat::v4);
  o.main_list = {.lengths = LengthKind::zero};
  SyntheticProblem p(o);
  int valid = 0;
  int invalid = 0;
  for (int row = 0; row < 6; ++row) {
    for (int i = 0; i < 37; ++i) {
      const bool is_valid =
          is_valid_slot(p.call().main_cache, list_entry(p.call().main_list, row, i));
      (is_valid ? valid : invalid) += 1;
    }
  }
  EXPECT_GT(valid, 50);
  EXPECT_GT(invalid, 20);
  EXPECT_EQ(p.call().main_list.lengths[0], 0);
}

TEST(Synthetic, KeepsKeysWithinTheBoundThatTheTolerancesAssume) {
  for (const KvFormat format : {KvFormat::v32, KvFormat::v4}) {
    for (const ScaleKind scales : {ScaleKind::normal, ScaleKind::power_of_two, ScaleKind::wide}) {
      std::vector<double> values(static_cast<std::size_t>(qk_dims(format)));
      double largest = 0;
      for (std::uint64_t seed = 0; seed < 500; ++seed) {
        dequantise_row(format, synthetic_bits::random_row(format, scales, seed), values);
        for (const double v : values) {
          ASSERT_TRUE(std::isfinite(v));
          largest = std::max(largest, std::fabs(v));
        }
      }
      EXPECT_LE(largest, 0.4375);
      EXPECT_GT(largest, 0.2);
    }
  }
}

TEST(Synthetic, DrawsEveryCodeThatIsANumber) {
  std::set<int> seen;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    for (const auto c : synthetic_bits::random_row(KvFormat::v32, ScaleKind::normal, seed).codes) {
      seen.insert(c);
    }
  }
  EXPECT_EQ(seen.size(), 254U);
  EXPECT_FALSE(seen.contains(0x7F) || seen.contains(0xFF));
}

TEST(Synthetic, NoticesOutputsLeftUnwrittenAndGapsWritten) {
  SyntheticOptions o = options(KvFormat::v4);
  o.out_head_pad = 8;
  o.out_row_pad = 16;
  o.lse_row_pad = 2;
  SyntheticProblem p(o);
  EXPECT_EQ(p.check_outputs(), "out at element 0 was not written");
  const ReferenceResult r = reference_decode(p.spec(), p.call());
  write_result(p.spec(), p.call(), r);
  EXPECT_EQ(p.check_outputs(), "");
  p.call().out[512] = 0;
  EXPECT_EQ(p.check_outputs(), "out at element 512 is a gap and was written");
  p.poison_outputs();
  write_result(p.spec(), p.call(), r);
  p.call().lse[3] = 0;
  EXPECT_EQ(p.check_outputs(), "lse at element 3 is a gap and was written");
}

TEST(Synthetic, SpansMoreThanFourGibibytesWithoutTheMemory) {
  SyntheticOptions o = options(KvFormat::v4);
  o.main_cache = {.page_size = 64, .stride_pad_bytes = std::int64_t{1} << 30, .spare_pages = 3};
  SyntheticProblem p(o);
  EXPECT_GT(p.buffers().main_cache.size(), std::size_t{5} << 30);
  const ReferenceResult far = reference_decode(p.spec(), p.call());
  o.main_cache = {.page_size = 64};
  EXPECT_EQ(far.out, decode(o).out);
}

}  // namespace
}  // namespace splitwave
