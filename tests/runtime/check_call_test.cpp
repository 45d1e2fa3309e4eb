// Every host-visible rule of problem.h: the smallest break of each is refused with the field's name
// and its value, and the nearest legal value is accepted.
#include "runtime/check_call.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace splitwave {
namespace {

// A legal call whose memory is never read.
struct Legal {
  ProblemSpec spec;
  DecodeCall call;
  alignas(16) std::array<std::uint8_t, 1024> cache{};
  alignas(16) std::array<std::uint16_t, 16> values{};
  std::array<std::int32_t, 4> slots{};
  std::array<float, 4> floats{};

  Legal() {
    spec.format = KvFormat::v4;
    spec.heads = 3;
    spec.main_width = 4;
    spec.extra_width = 5;
    spec.rows_max = 8;
    call.rows = 2;
    call.q = values.data();
    call.q_head_stride = 512;
    call.q_row_stride = 3 * 512;
    call.main_cache = {cache.data(), 10, 2, 2 * k_v4_row_bytes};
    call.extra_cache = {cache.data(), 10, 1, k_v4_row_bytes};
    call.main_list = {slots.data(), 4, slots.data()};
    call.extra_list = {slots.data(), 5, nullptr};
    call.softmax_scale = 0.1F;
    call.sink = floats.data();
    call.out = values.data();
    call.out_head_stride = 512;
    call.out_row_stride = 3 * 512;
    call.lse = floats.data();
    call.lse_row_stride = 3;
  }
  Legal(const Legal&) = delete;
  Legal& operator=(const Legal&) = delete;
};

std::string verdict(const std::function<void(Legal&)>& change) {
  Legal legal;
  change(legal);
  const Status spec = check_problem_spec(legal.spec);
  if (!spec.ok()) return spec.error().message;
  const Status call = check_decode_call(legal.spec, legal.call);
  return call.ok() ? "" : call.error().message;
}

void expect_accepted(const std::function<void(Legal&)>& change) { EXPECT_EQ(verdict(change), ""); }

// The refusal must begin with "field = value".
void expect_refused(const std::string& start, const std::function<void(Legal&)>& change) {
  const std::string message = verdict(change);
  EXPECT_EQ(message.substr(0, start.size()), start) << message;
  EXPECT_NE(message.find(": "), std::string::npos) << "says what works: " << message;
}

TEST(CheckCall, AcceptsALegalCall) { expect_accepted([](Legal&) {}); }

TEST(CheckCall, RefusesShapesOutOfRange) {
  expect_refused("heads = 0", [](Legal& l) { l.spec.heads = 0; });
  expect_refused("heads = 129", [](Legal& l) { l.spec.heads = 129; });
  expect_refused("main_width = -1", [](Legal& l) { l.spec.main_width = -1; });
  expect_refused("extra_width = -1", [](Legal& l) { l.spec.extra_width = -1; });
  expect_refused("rows_max = -1", [](Legal& l) { l.spec.rows_max = -1; });
  expect_refused("main_width + extra_width = 2147483648", [](Legal& l) {
    l.spec.main_width = std::numeric_limits<int>::max();
    l.spec.extra_width = 1;
  });
}

TEST(CheckCall, RefusesF16WithoutADeclaredRange) {
  expect_refused("value_range_max = inf",
                 [](Legal& l) { l.spec.operands = OperandType::f16; });
  expect_refused("value_range_max = 65505", [](Legal& l) {
    l.spec.operands = OperandType::f16;
    l.spec.value_range_max = 65505.0F;
  });
  expect_accepted([](Legal& l) {
    l.spec.operands = OperandType::f16;
    l.spec.value_range_max = 65504.0F;
  });
}

TEST(CheckCall, RefusesRowsBeyondTheDeclaredMaximum) {
  expect_refused("rows = 9", [](Legal& l) { l.call.rows = 9; });
  expect_refused("rows = -1", [](Legal& l) { l.call.rows = -1; });
  expect_accepted([](Legal& l) { l.call.rows = 8; });
}

TEST(CheckCall, LetsAnEmptyCallBringNothing) {
  expect_accepted([](Legal& l) { l.call = DecodeCall{}; });
}

TEST(CheckCall, LetsAnEmptyListBringNoCache) {
  expect_accepted([](Legal& l) {
    l.spec.extra_width = 0;
    l.call.extra_cache = {};
    l.call.extra_list = {};
  });
  expect_accepted([](Legal& l) {
    l.spec.main_width = 0;
    l.call.main_cache = {};
    l.call.main_list = {};
  });
}

TEST(CheckCall, RefusesPagesThatDoNotHoldTheirRows) {
  expect_refused("main_cache.page_size = 0", [](Legal& l) { l.call.main_cache.page_size = 0; });
  expect_refused("main_cache.page_stride_bytes = 1160",
                 [](Legal& l) { l.call.main_cache.page_stride_bytes = 2 * k_v4_row_bytes - 8; });
  expect_refused("extra_cache.page_stride_bytes = 588",
                 [](Legal& l) { l.call.extra_cache.page_stride_bytes = 588; });
  expect_accepted([](Legal& l) { l.call.extra_cache.page_stride_bytes = 592; });
  expect_refused("main_cache.pages = -1", [](Legal& l) { l.call.main_cache.pages = -1; });
  expect_refused("main_cache.pages = 9223372036854775807", [](Legal& l) {
    l.call.main_cache.pages = std::numeric_limits<std::int64_t>::max();
  });
}

TEST(CheckCall, RefusesAMissingOrUnalignedCache) {
  expect_refused("main_cache.base = null", [](Legal& l) { l.call.main_cache.base = nullptr; });
  expect_refused("main_cache.base = ", [](Legal& l) { l.call.main_cache.base += 8; });
  expect_accepted([](Legal& l) { l.call.main_cache = {nullptr, 0, 1, k_v4_row_bytes}; });
}

TEST(CheckCall, RefusesListsShorterThanTheirWidth) {
  expect_refused("main_list.slots = null", [](Legal& l) { l.call.main_list.slots = nullptr; });
  expect_refused("extra_list.row_stride = 4", [](Legal& l) { l.call.extra_list.row_stride = 4; });
  expect_accepted([](Legal& l) { l.call.extra_list.row_stride = 17; });
  expect_accepted([](Legal& l) {
    l.call.rows = 1;
    l.call.extra_list.row_stride = 0;
  });
}

TEST(CheckCall, RefusesStridesThatAreNotMultiplesOfEight) {
  expect_refused("q_row_stride = 1540", [](Legal& l) { l.call.q_row_stride = 1540; });
  expect_refused("q_head_stride = -512", [](Legal& l) { l.call.q_head_stride = -512; });
  expect_refused("out_row_stride = 1540", [](Legal& l) { l.call.out_row_stride = 1540; });
  expect_refused("out_head_stride = 516", [](Legal& l) { l.call.out_head_stride = 516; });
}

TEST(CheckCall, RefusesOutputsThatOverlap) {
  expect_refused("out_head_stride = 504", [](Legal& l) { l.call.out_head_stride = 504; });
  expect_refused("out_row_stride = 1528", [](Legal& l) { l.call.out_row_stride = 1528; });
  expect_refused("lse_row_stride = 2", [](Legal& l) { l.call.lse_row_stride = 2; });
  expect_accepted([](Legal& l) {  // [heads, rows, 512]
    l.call.out_row_stride = 512;
    l.call.out_head_stride = 1024;
  });
}

TEST(CheckCall, RefusesMissingPointers) {
  expect_refused("q = null", [](Legal& l) { l.call.q = nullptr; });
  expect_refused("out = null", [](Legal& l) { l.call.out = nullptr; });
  expect_accepted([](Legal& l) {
    l.call.lse = nullptr;
    l.call.sink = nullptr;
  });
}

TEST(CheckCall, RefusesAScaleThatIsNotFinite) {
  expect_refused("softmax_scale = nan", [](Legal& l) { l.call.softmax_scale = std::nanf(""); });
  expect_refused("softmax_scale = inf", [](Legal& l) { l.call.softmax_scale = INFINITY; });
  expect_accepted([](Legal& l) { l.call.softmax_scale = -1.0F; });
}

TEST(CheckCall, RefusesACallersWorkspaceThatIsMissingOrMisaligned) {
  alignas(256) static std::array<std::uint8_t, 512> memory{};
  EXPECT_TRUE(check_workspace(nullptr, 0).ok());
  EXPECT_TRUE(check_workspace(memory.data(), 256).ok());
  const Status missing = check_workspace(nullptr, 256);
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("workspace = null: 256 bytes"), std::string::npos);
  const Status misaligned = check_workspace(memory.data() + 128, 256);
  ASSERT_FALSE(misaligned.ok());
  EXPECT_NE(misaligned.error().message.find("multiple of 256"), std::string::npos);
}

}  // namespace
}  // namespace splitwave
