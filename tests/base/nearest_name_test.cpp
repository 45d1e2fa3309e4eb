// "Did you mean": what is close, what is not.
#include "base/nearest_name.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace splitwave {
namespace {

constexpr std::array<std::string_view, 4> k_names = {"h100", "h200", "b200", "rtx-pro-6000"};

TEST(NearestName, FindsOneTypoOneSwapAndAnotherCase) {
  EXPECT_EQ(nearest_name("rtx-pro6000", k_names), "rtx-pro-6000");
  EXPECT_EQ(nearest_name("rtx-por-6000", k_names), "rtx-pro-6000");
  EXPECT_EQ(nearest_name("RTX-PRO-6000", k_names), "rtx-pro-6000");
}

TEST(NearestName, TakesTheEarlierOfTwoEquallyClose) {
  EXPECT_EQ(nearest_name("x200", k_names), "h200");
}

TEST(NearestName, StaysSilentWhenNothingIsClose) {
  EXPECT_EQ(nearest_name("banana", k_names), "");
  EXPECT_EQ(nearest_name("", k_names), "");
  EXPECT_EQ(nearest_name(std::string(5000, 'h'), k_names), "");
  EXPECT_EQ(did_you_mean("banana", k_names), "");
  EXPECT_EQ(did_you_mean("h20", k_names), " (did you mean h200?)");
}

}  // namespace
}  // namespace splitwave
