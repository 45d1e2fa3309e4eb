// Expected and Status: both sides, and the exit status of each kind of error.
#include "splitwave/status.h"

#include <gtest/gtest.h>

namespace splitwave {
namespace {

Expected<int> half(int n) {
  if (n % 2 != 0) return bad_input("n is odd");
  return n / 2;
}

TEST(Expected, HoldsTheValueOrTheError) {
  ASSERT_TRUE(half(4).ok());
  EXPECT_EQ(*half(4), 2);
  ASSERT_FALSE(half(3).ok());
  EXPECT_EQ(half(3).error().message, "n is odd");
  EXPECT_THROW((void)half(3).value(), std::bad_variant_access);
}

TEST(Error, MapsEachKindToItsExitStatus) {
  EXPECT_EQ(exit_status(ErrorKind::gate), 1);
  EXPECT_EQ(exit_status(ErrorKind::bad_input), 2);
  EXPECT_EQ(exit_status(ErrorKind::environment), 3);
}

}  // namespace
}  // namespace splitwave
