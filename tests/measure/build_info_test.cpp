// What CMake baked into the binary.
#include "measure/build_info.h"

#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <string>

namespace splitwave::measure {
namespace {

TEST(BuildInfo, CommitIsFortyHexDigitsInACheckoutAndUnknownOutside) {
  const std::string commit = build_info().commit;
  const bool checkout = std::filesystem::exists(std::string(SPLITWAVE_SOURCE_DIR) + "/.git");
  if (commit == "unknown") {
    EXPECT_FALSE(checkout) << "a git checkout whose commit was not baked in";
    return;
  }
  EXPECT_EQ(commit.size(), 40U);
  for (const char c : commit) EXPECT_TRUE(std::isxdigit(static_cast<unsigned char>(c))) << commit;
}

TEST(BuildInfo, NamesCompilerBuildTypeAndTheContractionFlag) {
  EXPECT_FALSE(std::string(build_info().compiler).empty());
  EXPECT_FALSE(std::string(build_info().build_type).empty());
  EXPECT_NE(std::string(build_info().flags).find("-ffp-contract=off"), std::string::npos);
  EXPECT_EQ(std::string(build_info().cuda_archs).empty(),
            std::string(build_info().cuda_compiler) == "none");
}

}  // namespace
}  // namespace splitwave::measure
