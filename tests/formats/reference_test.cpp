// The reference against results worked out by hand: one sentence of the contract a test.
#include "formats/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "formats/bf16.h"
#include "formats/fp8.h"
#include "formats/kv_row.h"
#include "formats/synthetic.h"

namespace splitwave {
namespace {

constexpr float k_inf = std::numeric_limits<float>::infinity();
constexpr std::int32_t k_int_max = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t k_int_min = std::numeric_limits<std::int32_t>::min();

// One row, one head, tokens whose key is 1 in dim 0 times a weight: score = log(3) * weight, so a
// token of weight 1 counts three times a token of weight 0. Dim 1 of the value tells tokens apart.
class HandMade {
 public:
  explicit HandMade(KvFormat format, int main_width, int extra_width = 0) {
    spec.format = format;
    spec.heads = 1;
    spec.main_width = main_width;
    spec.extra_width = extra_width;
    main_pool.resize(8 * static_cast<std::size_t>(page_bytes(format, 2)), 0xFF);
    extra_pool.resize(8 * static_cast<std::size_t>(page_bytes(format, 3)), 0xFF);
    main_view = {main_pool.data(), 8, 2, page_bytes(format, 2)};
    extra_view = {extra_pool.data(), 8, 3, page_bytes(format, 3)};
    q.assign(static_cast<std::size_t>(qk_dims(format)), 0);
    q[0] = float_to_bf16(1.0F);
    call.rows = 1;
    call.q = q.data();
    call.q_row_stride = call.q_head_stride = qk_dims(format);
    call.main_cache = main_view.view();
    call.extra_cache = extra_view.view();
    call.softmax_scale = std::log(3.0F);
  }
  void put(const MutableCacheView& pool, int slot, float weight, float dim1) {
    KvRow row;
    row.codes[0] = encode_e4m3(weight);
    row.codes[1] = encode_e4m3(dim1);
    row.scales_e8m0.fill(127);
    row.scales_f32.fill(1.0F);
    pack_row(spec.format, row, pool, slot);
  }
  ReferenceResult run(std::vector<std::int32_t> main_slots,
                      std::vector<std::int32_t> extra_slots = {}) {
    call.main_list.slots = main_slots.data();
    call.main_list.row_stride = spec.main_width;
    call.extra_list.slots = extra_slots.data();
    call.extra_list.row_stride = spec.extra_width;
    return reference_decode(spec, call);
  }

  ProblemSpec spec;
  std::vector<std::uint8_t> main_pool, extra_pool;
  MutableCacheView main_view, extra_view;
  std::vector<std::uint16_t> q;
  DecodeCall call;
};

class ReferenceOfBothFormats : public testing::TestWithParam<KvFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, ReferenceOfBothFormats,
                         testing::Values(KvFormat::v32, KvFormat::v4),
                         [](const auto& p) { return name_of(p.param); });

TEST_P(ReferenceOfBothFormats, WeighsKeysBySoftmaxOfScaledScores) {
  HandMade p(GetParam(), 2);
  p.put(p.main_view, 3, 1.0F, 8.0F);   // weight 3
  p.put(p.main_view, 6, 0.0F, 16.0F);  // weight 1
  const ReferenceResult r = p.run({3, 6});
  EXPECT_NEAR(r.out[0], 0.75, 1e-7);
  EXPECT_NEAR(r.out[1], 0.75 * 8 + 0.25 * 16, 1e-6);
  EXPECT_EQ(r.out[2], 0);
  EXPECT_NEAR(r.lse[0], std::log(4.0), 1e-7);
}

TEST_P(ReferenceOfBothFormats, AttendsTheUnionOfBothCachesAndCountsATokenTwiceThatIsInBoth) {
  HandMade p(GetParam(), 2, 3);
  p.put(p.main_view, 0, 0.0F, 1.0F);
  p.put(p.extra_view, 23, 0.0F, 4.0F);
  const ReferenceResult r = p.run({0, -1}, {23, 23, -1});
  EXPECT_NEAR(r.out[1], (1.0 + 4.0 + 4.0) / 3, 1e-12);
  EXPECT_NEAR(r.lse[0], std::log(3.0), 1e-12);
}

TEST_P(ReferenceOfBothFormats, SkipsInvalidEntriesWhereverTheyStandAndNeverReadsThem) {
  HandMade p(GetParam(), 6);
  p.put(p.main_view, 15, 0.0F, 2.0F);  // every other slot of the pool holds NaN
  const ReferenceResult r = p.run({-1, k_int_min, 15, 16, k_int_max, -16});
  EXPECT_EQ(r.out[1], 2.0);
  EXPECT_EQ(r.lse[0], 0.0);
}

TEST_P(ReferenceOfBothFormats, ClampsLengthsToTheWidthAndIgnoresEntriesPastThem) {
  HandMade p(GetParam(), 3);
  p.put(p.main_view, 0, 0.0F, 1.0F);
  p.put(p.main_view, 1, 0.0F, 3.0F);
  const auto dim1 = [&](std::int32_t length) {
    p.call.main_list.lengths = &length;
    return p
        .run({0, 1, 9})  // slot 9 holds NaN
        .out[1];
  };
  EXPECT_EQ(dim1(1), 1.0);
  EXPECT_EQ(dim1(2), 2.0);
  EXPECT_EQ(dim1(0), 0.0);
  EXPECT_EQ(dim1(-5), 0.0);
  EXPECT_EQ(dim1(k_int_min), 0.0);
  EXPECT_TRUE(std::isnan(dim1(3)));
  EXPECT_TRUE(std::isnan(dim1(k_int_max)));
}

TEST_P(ReferenceOfBothFormats, GivesZeroAndInfiniteLseForARowWithoutAKeyWhateverTheSink) {
  HandMade p(GetParam(), 2);
  for (const float sink : {-k_inf, 0.0F, 3.0F, k_inf}) {
    p.call.sink = &sink;
    const ReferenceResult r = p.run({-1, 16});
    for (const double v : r.out) ASSERT_EQ(v, 0.0);
    EXPECT_EQ(r.lse[0], k_inf);
  }
  p.call.sink = nullptr;
  HandMade no_lists(GetParam(), 0, 0);
  const ReferenceResult r = no_lists.run({}, {});
  EXPECT_EQ(r.out[0], 0.0);
  EXPECT_EQ(r.lse[0], k_inf);
}

TEST_P(ReferenceOfBothFormats, AddsTheSinkToTheDenominatorOnly) {
  HandMade p(GetParam(), 1);
  p.put(p.main_view, 2, 1.0F, 8.0F);  // score log 3
  const auto with_sink = [&](float sink) {
    p.call.sink = &sink;
    return p.run({2});
  };
  EXPECT_NEAR(with_sink(0.0F).out[1], 8.0 * 3 / (3 + 1), 1e-6);
  EXPECT_NEAR(with_sink(0.0F).lse[0], std::log(3.0), 1e-7);
  EXPECT_EQ(with_sink(-k_inf).out[1], 8.0);
  EXPECT_EQ(with_sink(k_inf).out[1], 0.0);
  EXPECT_NEAR(with_sink(k_inf).lse[0], std::log(3.0), 1e-7);
  EXPECT_EQ(with_sink(1e30F).out[1], 0.0);
}

TEST(Reference, TakesTheRopeDimsIntoTheScoresOfBothFormatsAndIntoTheValuesOfV4Only) {
  for (const KvFormat format : {KvFormat::v32, KvFormat::v4}) {
    HandMade p(format, 1);
    KvRow row;
    row.scales_e8m0.fill(127);
    row.scales_f32.fill(1.0F);
    row.rope[63] = float_to_bf16(2.0F);
    pack_row(format, row, p.main_view, 4);
    p.q.back() = float_to_bf16(0.5F);
    const ReferenceResult r = p.run({4});
    EXPECT_NEAR(r.lse[0], std::log(3.0), 1e-7);
    EXPECT_EQ(r.out[511], format == KvFormat::v4 ? 2.0 : 0.0);
  }
}

SyntheticOptions small(KvFormat format) {
  SyntheticOptions o;
  o.spec = {.format = format, .heads = 5, .main_width = 40, .extra_width = 23, .rows_max = 8};
  o.rows = 4;
  o.main_cache.page_size = 3;
  o.extra_cache.page_size = 1;
  o.main_list = {.lengths = LengthKind::ragged, .invalid = InvalidKind::scattered};
  o.sink = SinkKind::mixed;
  return o;
}
ReferenceResult decode(const SyntheticOptions& o) {
  const SyntheticProblem p(o);
  return reference_decode(p.spec(), p.call());
}

TEST_P(ReferenceOfBothFormats, DoesNotDependOnWhatNoRowMayUse) {
  SyntheticOptions o = small(GetParam());
  o.poison = PoisonKind::zero;
  const ReferenceResult clean = decode(o);
  for (const PoisonKind poison : {PoisonKind::nan, PoisonKind::huge, PoisonKind::stale}) {
    o.poison = poison;
    const ReferenceResult r = decode(o);
    EXPECT_EQ(r.out, clean.out);
    EXPECT_EQ(r.lse, clean.lse);
  }
}

TEST_P(ReferenceOfBothFormats, KeepsNanInTheRowAndHeadThatHoldIt) {
  SyntheticOptions o = small(GetParam());
  o.sink = SinkKind::none;
  o.main_list.lengths = LengthKind::full;
  const ReferenceResult clean = decode(o);
  const auto is_nan_cell = [&](const ReferenceResult& r, std::size_t row, std::size_t head) {
    const std::size_t cell = row * 5 + head;
    int nans = std::isnan(r.lse[cell]) ? 1 : 0;
    for (std::size_t c = 0; c < 512; ++c) nans += std::isnan(r.out[cell * 512 + c]) ? 1 : 0;
    EXPECT_TRUE(nans == 0 || nans == 513) << "a cell is NaN as a whole or not at all";
    if (nans == 0) {
      EXPECT_EQ(r.lse[cell], clean.lse[cell]);
    }
    return nans != 0;
  };
  for (const HostileKind kind :
       {HostileKind::nan_q, HostileKind::nan_q_one_head, HostileKind::nan_code,
        HostileKind::nan_scale, HostileKind::nan_rope}) {
    o.hostile = {HostileKind::none, kind, HostileKind::none, HostileKind::none};
    const ReferenceResult r = decode(o);
    for (std::size_t row = 0; row < 4; ++row) {
      for (std::size_t head = 0; head < 5; ++head) {
        const bool expected = row == 1 && (kind != HostileKind::nan_q_one_head || head == 2);
        EXPECT_EQ(is_nan_cell(r, row, head), expected)
            << "kind " << static_cast<int>(kind) << " row " << row << " head " << head;
      }
    }
  }
}

TEST_P(ReferenceOfBothFormats, GivesTheFirstHeadsOfALongerCall) {
  SyntheticOptions o = small(GetParam());
  const ReferenceResult five = decode(o);
  o.spec.heads = 128;
  const ReferenceResult all = decode(o);
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t i = 0; i < 5 * std::size_t{512}; ++i) {
      ASSERT_EQ(five.out[row * 5 * 512 + i], all.out[row * 128 * 512 + i]);
    }
  }
}

TEST(Reference, TakesNoRows) {
  SyntheticOptions o = small(KvFormat::v4);
  o.rows = 0;
  EXPECT_TRUE(decode(o).out.empty());
}

}  // namespace
}  // namespace splitwave
