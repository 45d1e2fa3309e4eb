// The accuracy gates: a perfect result passes, every planted fault fails for its own reason.
#include "formats/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "formats/bf16.h"
#include "formats/reference_output.h"
#include "formats/synthetic.h"

namespace splitwave {
namespace {

using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

AssertionResult fails_with(const Comparison& c, const std::string& text) {
  if (c.ok) return AssertionFailure() << "the comparison passed";
  if (c.failure.find(text) == std::string::npos) return AssertionFailure() << c.failure;
  return AssertionSuccess();
}

// A problem, its reference, and the reference rounded to bf16 as the result to spoil.
struct Judged {
  explicit Judged(const SyntheticOptions& options)
      : problem(options), reference(reference_decode(problem.spec(), problem.call())) {
    write_result(problem.spec(), problem.call(), reference);
  }
  [[nodiscard]] Comparison compare() const {
    return compare_decode(problem.spec(), problem.call(), reference);
  }
  std::uint16_t& out(int row, int head, int dim) const {
    const DecodeCall& c = problem.call();
    return c.out[row * c.out_row_stride + head * c.out_head_stride + dim];
  }
  float& lse(int row, int head) const {
    return problem.call().lse[row * problem.call().lse_row_stride + head];
  }
  SyntheticProblem problem;
  ReferenceResult reference;
};

// Width 2048 where the fault's size depends on it, 256 elsewhere.
SyntheticOptions wide(KvFormat format, int width = 256) {
  SyntheticOptions o;
  o.spec = {.format = format, .heads = 6, .main_width = width, .rows_max = 3};
  o.rows = 3;
  o.out_head_pad = 8;
  o.out_row_pad = 24;
  o.lse_row_pad = 3;
  return o;
}

TEST(Compare, PassesTheReferenceItself) {
  for (const KvFormat format : {KvFormat::v32, KvFormat::v4}) {
    const Judged j(wide(format));
    const Comparison c = j.compare();
    EXPECT_TRUE(c.ok) << c.failure;
    EXPECT_LT(c.worst_row_rel_l2, 2e-3);  // the rounding of the output alone
    EXPECT_GT(c.rel_l2, 1e-4);
    EXPECT_LT(c.worst_lse_error, 1e-7);
    EXPECT_EQ(j.problem.check_outputs(), "");
  }
}

TEST(Compare, FailsWhenOneKeyOfOneRowAndHeadIsDroppedAtWidth2048) {
  for (const KvFormat format : {KvFormat::v32, KvFormat::v4}) {
    const Judged j(wide(format, 2048));
    // The same problem without entry 777 of row 1; only head 4 of that row is taken from it.
    SyntheticProblem dropped(wide(format, 2048));
    auto slots = dropped.buffers().main_slots;
    const std::int32_t invalid = -1;
    std::memcpy(slots.data() + (1 * 2048 + 777) * 4, &invalid, 4);
    const ReferenceResult without = reference_decode(dropped.spec(), dropped.call());
    for (int c = 0; c < k_value_dims; ++c) {
      j.out(1, 4, c) = double_to_bf16(without.out[static_cast<std::size_t>((1 * 6 + 4) * 512 + c)]);
    }
    const Comparison c = j.compare();
    EXPECT_TRUE(fails_with(c, "out[row 1, head 4] has relative L2 error"));
    // What makes the per-head gate necessary: the tensor's norm does not see it.
    EXPECT_LT(c.rel_l2, 1e-2);
  }
}

TEST(Compare, FailsWhenTheSignOfOneElementIsFlipped) {
  const Judged j(wide(KvFormat::v4));
  int dim = 0;
  while (std::fabs(bf16_to_float(j.out(2, 0, dim))) < 2e-3F) ++dim;
  j.out(2, 0, dim) ^= 0x8000;
  EXPECT_TRUE(fails_with(j.compare(), "out[row 2, head 0, dim " + std::to_string(dim) + "]"));
}

TEST(Compare, FailsOnANanThatTheReferenceDoesNotHave) {
  const Judged j(wide(KvFormat::v4));
  j.out(0, 5, 511) = 0x7FC0;
  EXPECT_TRUE(fails_with(j.compare(), "out[row 0, head 5, dim 511] is nan"));
}

TEST(Compare, FailsOnAnInfThatTheReferenceDoesNotHaveAndReportsItBeforeOtherFaults) {
  const Judged j(wide(KvFormat::v4));
  j.out(0, 0, 0) = 0x4120;  // 10.0: an element fault at an earlier place
  j.out(2, 5, 7) = 0xFF80;
  EXPECT_TRUE(fails_with(j.compare(), "out[row 2, head 5, dim 7] is -inf"));
}

TEST(Compare, FailsOnAFiniteValueWhereTheReferenceIsNan) {
  SyntheticOptions o = wide(KvFormat::v32);
  o.hostile = {HostileKind::none, HostileKind::nan_code, HostileKind::none};
  const Judged j(o);
  EXPECT_TRUE(j.compare().ok) << j.compare().failure;
  j.out(1, 2, 3) = 0x3C00;
  EXPECT_TRUE(fails_with(j.compare(), "the reference nan: inf and NaN must match"));
}

TEST(Compare, FailsOnAnInfOfTheWrongSign) {
  const Judged j(wide(KvFormat::v4));
  ReferenceResult with_inf = j.reference;
  with_inf.out[0] = HUGE_VAL;
  j.out(0, 0, 0) = 0xFF80;
  EXPECT_TRUE(fails_with(compare_decode(j.problem.spec(), j.problem.call(), with_inf), "is -inf"));
  j.out(0, 0, 0) = 0x7F80;
  EXPECT_TRUE(compare_decode(j.problem.spec(), j.problem.call(), with_inf).ok);
}

TEST(Compare, HoldsTheLseToItsToleranceOfEachFormat) {
  const auto with_error = [](KvFormat format, double error) {
    const Judged j(wide(format));
    const double lse = j.reference.lse[1 * 6 + 2];
    j.lse(1, 2) = static_cast<float>(lse + error * std::max(1.0, std::fabs(lse)));
    return j.compare();
  };
  EXPECT_TRUE(with_error(KvFormat::v4, 1.5e-5).ok);
  EXPECT_TRUE(fails_with(with_error(KvFormat::v4, 2.5e-5), "lse[row 1, head 2]"));
  EXPECT_TRUE(with_error(KvFormat::v32, 1.5e-3).ok);
  EXPECT_TRUE(fails_with(with_error(KvFormat::v32, 2.5e-3), "lse[row 1, head 2]"));
}

TEST(Compare, FailsWhenAnEmptyRowIsNotZeroOrItsLseNotInf) {
  SyntheticOptions o = wide(KvFormat::v4);
  o.spec.main_width = 64;
  o.main_list.lengths = LengthKind::zero;
  const Judged j(o);
  EXPECT_TRUE(j.compare().ok);
  EXPECT_EQ(j.compare().rel_l2, 0);
  j.lse(0, 0) = 0.0F;
  EXPECT_TRUE(fails_with(j.compare(), "lse[row 0, head 0] is 0, the reference inf"));
  j.lse(0, 0) = -std::numeric_limits<float>::infinity();
  EXPECT_TRUE(fails_with(j.compare(), "lse[row 0, head 0] is -inf, the reference inf"));
  j.lse(0, 0) = std::numeric_limits<float>::infinity();
  j.out(1, 1, 1) = float_to_bf16(1e-6F);  // under every absolute tolerance
  EXPECT_TRUE(fails_with(j.compare(), "out[row 1, head 1] has relative L2 error"));
}

TEST(Compare, FailsWhenEveryElementIsSlightlyOff) {
  // 0.5 % too large everywhere: inside the element rule, outside the norms.
  const Judged j(wide(KvFormat::v4));
  for (int row = 0; row < 3; ++row) {
    for (int head = 0; head < 6; ++head) {
      for (int c = 0; c < k_value_dims; ++c) {
        j.out(row, head, c) = float_to_bf16(bf16_to_float(j.out(row, head, c)) * 1.005F);
      }
    }
  }
  EXPECT_TRUE(fails_with(j.compare(), "relative L2 error"));
}

TEST(Compare, PassesNoRowsAndNoLse) {
  SyntheticOptions o = wide(KvFormat::v4);
  o.spec.main_width = 16;
  o.rows = 0;
  EXPECT_TRUE(Judged(o).compare().ok);
  o.rows = 2;
  o.wants_lse = false;
  EXPECT_TRUE(Judged(o).compare().ok);
}

}  // namespace
}  // namespace splitwave
