// A tree of files for the self-tests of the rules. Owns a temporary folder, removed at the end.
// Used by planted_test.cpp and planted_docs_test.cpp.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tidy/rules.h"

namespace splitwave::tidy {

class Planted : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::path(testing::TempDir()) / ("tidy_" + std::string(info->name()));
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
    plant("scripts/cmake/splitwave_layers.cmake",
          "# The layer table of a planted tree.\n"
          "set(SPLITWAVE_LAYER_base \"\")\n"
          "set(SPLITWAVE_LAYER_plan base)  # plan builds on base\n"
          "set(SPLITWAVE_LAYER_kernels_cuda base plan)\n"
          "set(SPLITWAVE_LAYER_runner base\n                           plan)\n"
          "set(SPLITWAVE_LAYER_experiment base plan runner)\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void plant(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path, std::ios::binary) << text;
  }

  [[nodiscard]] SourceTree tree() const { return SourceTree::walked(root_.string()); }

  // Exactly one finding, at this place, with these words.
  static void expect_one(const Findings& findings, const std::string& path, int line,
                         const std::string& words) {
    ASSERT_EQ(findings.size(), 1U) << (findings.empty() ? "" : findings[1].text);
    EXPECT_EQ(findings[0].path, path);
    EXPECT_EQ(findings[0].line, line);
    EXPECT_NE(findings[0].text.find(words), std::string::npos) << findings[0].text;
  }

  static void expect_none(const Findings& findings) {
    for (const Finding& finding : findings) ADD_FAILURE() << finding;
  }

  std::filesystem::path root_;
};

}  // namespace splitwave::tidy
