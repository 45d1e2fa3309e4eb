// The tests' main: a run in which no test ran is a failure, and every skip is named at the end.
#include <gtest/gtest.h>

#include <cstdio>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  const auto& unit = *testing::UnitTest::GetInstance();
  if (unit.skipped_test_count() > 0) {
    std::printf("SKIPPED: %d of %d tests\n", unit.skipped_test_count(), unit.test_to_run_count());
  }
  if (unit.test_to_run_count() == unit.skipped_test_count()) {
    std::printf("no test ran: that is a failure\n");
    return 1;
  }
  return failed;
}
