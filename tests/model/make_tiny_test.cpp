// The tiny checkpoint: complete, the same for the same seed, values in range in both expert
// formats.
#include "model/make_tiny.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "formats/e8m0.h"
#include "formats/fp8.h"
#include "model/checkpoint.h"
#include "support/temp_dir.h"

namespace splitwave::model {
namespace {

class MakeTiny : public testing::TestWithParam<ExpertFormat> {};

TEST_P(MakeTiny, WritesACheckpointWithoutProblems) {
  const test::TempDir dir;
  ASSERT_TRUE(make_tiny(dir.path().string(), {.expert_format = GetParam()}).ok());
  const auto checkpoint = Checkpoint::open(dir.path().string());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_TRUE(checkpoint->problems().empty()) << checkpoint->problems().front();
  EXPECT_EQ(checkpoint->config().compress_ratios, (std::vector<int>{0, 0, 4, 128, 4, 128, 4}));
  EXPECT_EQ(checkpoint->config().expert_format, GetParam());
}

TEST_P(MakeTiny, WritesTheSameBytesForTheSameSeedAndOthersForAnother) {
  const test::TempDir a, b, c;
  ASSERT_TRUE(make_tiny(a.path().string(), {.expert_format = GetParam()}).ok());
  ASSERT_TRUE(make_tiny(b.path().string(), {.expert_format = GetParam()}).ok());
  ASSERT_TRUE(make_tiny(c.path().string(), {.seed = 2, .expert_format = GetParam()}).ok());
  const auto first = Checkpoint::open(a.path().string());
  const auto same = Checkpoint::open(b.path().string());
  const auto other = Checkpoint::open(c.path().string());
  int differing = 0;
  for (const Tensor* tensor : first->tensors()) {
    const auto bytes = static_cast<std::size_t>(tensor->bytes);
    EXPECT_EQ(std::memcmp(tensor->data, same->find(tensor->name)->data, bytes), 0) << tensor->name;
    if (std::memcmp(tensor->data, other->find(tensor->name)->data, bytes) != 0) ++differing;
  }
  EXPECT_GT(differing, static_cast<int>(first->tensors().size()) / 2);
}

INSTANTIATE_TEST_SUITE_P(Formats, MakeTiny,
                         testing::Values(ExpertFormat::mxfp4, ExpertFormat::nvfp4));

TEST(MakeTinyValues, HaveAboutTheDrawnVarianceAfterQuantisation) {
  const test::TempDir dir;
  ASSERT_TRUE(make_tiny(dir.path().string(), {}).ok());
  const auto checkpoint = Checkpoint::open(dir.path().string());
  const Tensor* weight = checkpoint->find("layers.0.attn.wq_b.weight");
  const Tensor* scale = checkpoint->find("layers.0.attn.wq_b.scale");
  double sum_squares = 0;
  const std::int64_t columns = weight->shape[1];
  for (std::int64_t i = 0; i < weight->bytes; ++i) {
    const std::int64_t block = i / columns / 128 * scale->shape[1] + i % columns / 128;
    const double v = double{decode_e4m3(weight->data[i])} * decode_e8m0(scale->data[block]);
    ASSERT_TRUE(std::isfinite(v));
    sum_squares += v * v;
  }
  EXPECT_NEAR(sum_squares / static_cast<double>(weight->bytes) * static_cast<double>(columns), 1.0,
              0.05);
}

TEST(MakeTinyErrors, NamesADirectoryThatCannotBeMade) {
  EXPECT_EQ(make_tiny("/proc/no-such/dir", {}).error().kind, ErrorKind::environment);
}

}  // namespace
}  // namespace splitwave::model
