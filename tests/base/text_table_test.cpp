// Text tables: alignment by content.
#include "base/text_table.h"

#include <gtest/gtest.h>

namespace splitwave {
namespace {

TEST(TextTable, AlignsNumbersRightAndTextLeft) {
  TextTable table({"name", "us"});
  table.add_row({"a", "1.5"});
  table.add_row({"long", "10.0"});
  EXPECT_EQ(table.str(), "name    us\n----------\na      1.5\nlong  10.0\n");
}

TEST(TextTableDeathTest, AbortsOnARowOfAnotherLength) {
  TextTable table({"one"});
  EXPECT_DEATH(table.add_row({"a", "b"}), "as many cells");
}

}  // namespace
}  // namespace splitwave
