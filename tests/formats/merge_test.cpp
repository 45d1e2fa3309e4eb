// Merging partial results: equal to the unsplit result, empty sides without effect.
#include "formats/merge.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "formats/compare.h"
#include "formats/reference_output.h"
#include "formats/synthetic.h"

namespace splitwave {
namespace {

struct Partial {
  std::vector<std::uint16_t> out;
  std::vector<float> lse;
};
Partial one_cell(float value, float lse) {
  return {std::vector<std::uint16_t>(512, float_to_bf16(value)), {lse}};
}
void merge(Partial& a, const Partial& b) {
  merge_decode_partials(a.out.data(), a.lse.data(), b.out.data(), b.lse.data(),
                        static_cast<std::int64_t>(a.lse.size()));
}

TEST(Merge, WeighsBothSidesByTheirSums) {
  Partial a = one_cell(2.0F, std::log(3.0F));
  merge(a, one_cell(6.0F, std::log(1.0F)));
  EXPECT_EQ(bf16_to_float(a.out[0]), 3.0F);
  EXPECT_NEAR(a.lse[0], std::log(4.0), 1e-6);
}

TEST(Merge, TakesAnEmptySideAsNothingBitForBit) {
  constexpr float k_empty = std::numeric_limits<float>::infinity();
  const Partial full = one_cell(-1.7F, 0.123F);
  Partial a = full;
  merge(a, one_cell(0.0F, k_empty));
  EXPECT_EQ(a.out, full.out);
  EXPECT_EQ(a.lse, full.lse);
  Partial b = one_cell(0.0F, k_empty);
  merge(b, full);
  EXPECT_EQ(b.out, full.out);
  EXPECT_EQ(b.lse, full.lse);
  Partial c = one_cell(0.0F, k_empty);
  merge(c, one_cell(0.0F, k_empty));
  EXPECT_EQ(c.out[5], 0);
  EXPECT_EQ(c.lse[0], k_empty);
}

TEST(Merge, SurvivesScoresFarOutsideTheRangeOfExp) {
  Partial a = one_cell(1.0F, 5000.0F);
  merge(a, one_cell(3.0F, 5000.0F));
  EXPECT_EQ(bf16_to_float(a.out[0]), 2.0F);
  Partial b = one_cell(1.0F, -9000.0F);
  merge(b, one_cell(3.0F, 9000.0F));
  EXPECT_EQ(bf16_to_float(b.out[0]), 3.0F);
  EXPECT_EQ(b.lse[0], 9000.0F);
}

TEST(Merge, KeepsNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Partial a = one_cell(nan, nan);
  merge(a, one_cell(1.0F, 0.0F));
  EXPECT_TRUE(std::isnan(bf16_to_float(a.out[0])) && std::isnan(a.lse[0]));
  Partial b = one_cell(1.0F, 0.0F);
  merge(b, one_cell(nan, nan));
  EXPECT_TRUE(std::isnan(bf16_to_float(b.out[0])) && std::isnan(b.lse[0]));
}

// Result of the problem with only the lists that are kept.
Partial result_of(const SyntheticProblem& p, bool keeps_main, bool keeps_extra) {
  ProblemSpec spec = p.spec();
  if (!keeps_main) spec.main_width = 0;
  if (!keeps_extra) spec.extra_width = 0;
  DecodeCall call = p.call();
  const auto cells = static_cast<std::size_t>(call.rows) * static_cast<std::size_t>(spec.heads);
  Partial result{std::vector<std::uint16_t>(cells * 512), std::vector<float>(cells)};
  call.out = result.out.data();
  call.out_head_stride = 512;
  call.out_row_stride = 512 * spec.heads;
  call.lse = result.lse.data();
  call.lse_row_stride = spec.heads;
  write_result(spec, call, reference_decode(spec, call));
  return result;
}

RC_GTEST_PROP(MergeProperty, EqualsTheUnsplitResultWithinTheContract, ()) {
  SyntheticOptions o;
  o.spec.format = *rc::gen::element(KvFormat::v32, KvFormat::v4);
  o.spec.heads = *rc::gen::inRange(1, 5);
  o.spec.main_width = *rc::gen::inRange(0, 90);
  o.spec.extra_width = *rc::gen::inRange(0, 90);
  o.rows = *rc::gen::inRange(1, 4);
  o.main_list.lengths = *rc::gen::element(LengthKind::ragged, LengthKind::none, LengthKind::zero);
  o.extra_list.lengths = *rc::gen::element(LengthKind::ragged, LengthKind::none, LengthKind::zero);
  o.extra_list.invalid = *rc::gen::element(InvalidKind::none, InvalidKind::scattered);
  o.scores = *rc::gen::element(ScoreKind::flat, ScoreKind::peaked, ScoreKind::rising);
  o.seed = *rc::gen::arbitrary<std::uint64_t>();
  const SyntheticProblem p(o);
  Partial merged = result_of(p, true, false);
  merge(merged, result_of(p, false, true));
  DecodeCall call = p.call();
  call.out = merged.out.data();
  call.out_head_stride = 512;
  call.out_row_stride = 512 * o.spec.heads;
  call.lse = merged.lse.data();
  call.lse_row_stride = o.spec.heads;
  const Comparison c = compare_decode(p.spec(), call, reference_decode(p.spec(), call));
  if (!c.ok) RC_FAIL(c.failure);
}

}  // namespace
}  // namespace splitwave
