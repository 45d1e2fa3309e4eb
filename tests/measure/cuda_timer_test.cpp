// Event timing and the L2 flush. Skipped, and recorded as skipped, where no GPU answers.
#include "measure/cuda_timer.h"

#include <gtest/gtest.h>

namespace splitwave::measure {
namespace {

bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

TEST(CudaTimer, WithoutADeviceCreationIsAnEnvironmentError) {
  if (has_gpu()) GTEST_SKIP() << "a GPU is present";
  const auto timer = EventTimer::create();
  ASSERT_FALSE(timer.ok());
  EXPECT_EQ(timer.error().kind, ErrorKind::environment);
  EXPECT_FALSE(L2Flush::create(0).ok());
}

TEST(CudaTimer, RefusesZeroReplays) { EXPECT_FALSE(time_graph_us(nullptr, nullptr, 0).ok()); }

TEST(CudaTimer, FlushBufferIsTwiceTheL2AndItsWriteTakesTime) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  auto flush = L2Flush::create(0);
  ASSERT_TRUE(flush.ok()) << flush.error().message;
  int l2_bytes = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, 0), cudaSuccess);
  EXPECT_EQ(flush->bytes(), 2 * static_cast<std::int64_t>(l2_bytes));
  auto timer = EventTimer::create();
  ASSERT_TRUE(timer.ok());
  ASSERT_TRUE(timer->start(nullptr).ok());
  ASSERT_TRUE(flush->flush(nullptr).ok());
  const auto elapsed_us = timer->stop_us(nullptr);
  ASSERT_TRUE(elapsed_us.ok());
  EXPECT_GT(*elapsed_us, 0);
}

}  // namespace
}  // namespace splitwave::measure
