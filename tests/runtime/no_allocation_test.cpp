// After creation a run allocates nothing, on any thread: malloc itself is counted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>

#include "runtime/decode_case.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SPLITWAVE_COUNTS_MALLOC 1
#endif

namespace {
std::atomic<std::int64_t> allocations{0};
}

#ifdef SPLITWAVE_COUNTS_MALLOC
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, bytes);
}
}
#endif

namespace splitwave {
namespace {

using namespace testing_support;

TEST(NoAllocation, TheCounterSeesAnAllocation) {
#ifndef SPLITWAVE_COUNTS_MALLOC
  GTEST_SKIP() << "the sanitizer owns malloc";
#endif
  const std::int64_t before = allocations.load();
  delete new std::vector<int>(1000);
  EXPECT_GT(allocations.load(), before);
}

TEST(NoAllocation, ARunAllocatesNothingFromItsFirstCallOn) {
#ifndef SPLITWAVE_COUNTS_MALLOC
  GTEST_SKIP() << "the sanitizer owns malloc";
#endif
  for (const KvFormat format : {KvFormat::v4, KvFormat::v32}) {
    for (const int threads : {1, 3}) {
      for (const char* text : {"class=throughput", "class=latency", "mode=free,target_ctas=64"}) {
        SyntheticProblem problem(full_options(format, 6, 9));
        Decoder decoder = make_decoder(problem.spec(),
                                       cpu_options(threads, *parse_plan_overrides(text)));
        const std::int64_t before = allocations.load();
        for (int run = 0; run < 3; ++run) {
          const bool is_ok = decoder.run(problem.call()).ok();
          const std::int64_t after = allocations.load();
          ASSERT_TRUE(is_ok);
          ASSERT_EQ(after, before) << name_of(format) << ", " << threads << " threads, " << text
                                   << ", run " << run;
        }
      }
    }
  }
}

}  // namespace
}  // namespace splitwave
