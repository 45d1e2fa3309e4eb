// Each rule on a planted tree that breaks it, and on its nearest tree that does not: a rule that
// cannot fail guards nothing.
#include "tidy/planted_tree.h"

namespace splitwave::tidy {
namespace {

class Layer : public Planted {};
class ThirdParty : public Planted {};
class Text : public Planted {};
class Reach : public Planted {};

TEST_F(Layer, AnIncludeAgainstTheArrowIsFound) {
  plant("src/plan/cost.h", "// Cost.\n");
  plant("src/base/check.cpp", "// Checks.\n\n#include \"plan/cost.h\"\n");
  expect_one(check_layers(tree()), "src/base/check.cpp", 3, "'base' may not use 'plan'");
}

TEST_F(Layer, AnIncludeAlongTheArrowIsNot) {
  plant("src/base/check.h", "// Checks.\n");
  plant("src/plan/cost.cpp", "// Cost.\n#include \"base/check.h\"\n");
  expect_none(check_layers(tree()));
}

TEST_F(Layer, ALayerReachedThroughAnUnassignedHeaderIsFoundInTheSourceThatReachesIt) {
  plant("src/experiment/CMakeLists.txt",
        "splitwave_layer(runner SOURCES run.cpp USES base)\n"
        "splitwave_layer(experiment SOURCES report.cpp USES base runner)\n");
  plant("src/experiment/report.h", "// Belongs with report.cpp: the outer layer.\n");
  plant("src/experiment/report.cpp", "// Report.\n#include \"experiment/report.h\"\n");
  plant("src/experiment/shared.h", "// In neither list.\n#include \"experiment/report.h\"\n");
  plant("src/experiment/run.cpp", "// Runner.\n#include \"experiment/shared.h\"\n");
  expect_one(check_layers(tree()), "src/experiment/run.cpp", 2,
             "'runner' may not use 'experiment'");
}

TEST_F(Layer, AFolderThatIsNoLayerIsFound) {
  plant("src/misc/a.cpp", "// Misc.\n");
  expect_one(check_layers(tree()), "src/misc/a.cpp", 0, "'misc' is not in");
}

TEST_F(Layer, ANestedFolderBelongsToTheNearestLayer) {
  plant("src/kernels/cuda/common/mma.h", "// Mma.\n");
  plant("src/kernels/cuda/portable/k.cu", "// Kernel.\n#include \"kernels/cuda/common/mma.h\"\n");
  expect_none(check_layers(tree()));
  plant("src/plan/cost.cpp", "// Cost.\n#include \"kernels/cuda/common/mma.h\"\n");
  expect_one(check_layers(tree()), "src/plan/cost.cpp", 2, "'plan' may not use 'kernels_cuda'");
}

TEST_F(Layer, APublicHeaderThatReachesIntoSrcIsFound) {
  plant("src/base/check.h", "// Checks.\n");
  plant("include/splitwave/a.h", "// A.\n#include \"base/check.h\"\n");
  expect_one(check_layers(tree()), "include/splitwave/a.h", 2, "outside its layers");
}

TEST_F(Layer, ATreeWithoutATableIsItselfAFinding) {
  plant("scripts/cmake/splitwave_layers.cmake", "# Nothing here.\n");
  EXPECT_EQ(check_layers(tree()).size(), 1U);
}

TEST_F(ThirdParty, CudaInAPublicHeaderIsFound) {
  plant("include/splitwave/a.h", "// A.\n#include <cuda_runtime.h>\n");
  expect_one(check_third_party(tree()), "include/splitwave/a.h", 2, "CUDA");
}

TEST_F(ThirdParty, JsonInAKernelIsFoundAndTheToolkitIsNot) {
  plant("src/kernels/cuda/k.cu",
        "// Kernel.\n#include <cuda_fp8.h>\n#include <nlohmann/json.hpp>\n#include <cstdint>\n");
  expect_one(check_third_party(tree()), "src/kernels/cuda/k.cu", 3, "nlohmann-json");
}

TEST_F(ThirdParty, ALibraryBelowTheOuterLayersIsFoundAndInThemIsNot) {
  plant("src/experiment/a.cpp", "// A.\n#include <toml++/toml.h>\n");
  plant("src/plan/b.cpp", "// B.\n#include <toml++/toml.h>\n");
  expect_one(check_third_party(tree()), "src/plan/b.cpp", 2, "toml++");
}

TEST_F(ThirdParty, ALibraryThatTheRunnerReachesThroughAHeaderIsFound) {
  plant("src/experiment/CMakeLists.txt",
        "splitwave_layer(runner SOURCES run.cpp USES base)\n"
        "splitwave_layer(experiment SOURCES report.cpp USES base runner)\n");
  plant("src/experiment/shared.h", "// Shared.\n#include <git2.h>\n");
  plant("src/experiment/run.cpp", "// Runner.\n\n#include \"experiment/shared.h\"\n");
  expect_one(check_third_party(tree()), "src/experiment/run.cpp", 3, "libgit2");
}

TEST_F(ThirdParty, AHeaderOfNoKnownLibraryIsFound) {
  plant("src/base/a.cpp", "// A.\n#include \"base/chekc.h\"\n#include <sys/mman.h>\n");
  expect_one(check_third_party(tree()), "src/base/a.cpp", 2, "no known library");
}

TEST_F(Text, AFileOverItsLimitIsFoundAndAKernelMayBeLonger) {
  std::string lines;
  for (int i = 0; i < 701; ++i) lines += "// line\n";
  plant("src/base/long.cpp", lines);
  plant("src/kernels/cuda/long.cu", lines);
  expect_one(check_file_sizes(tree()), "src/base/long.cpp", 0, "701 lines");
}

TEST_F(Text, A101stColumnIsFoundCountedInCodePoints) {
  plant("src/base/a.cpp", "// " + std::string(97, 'x') + "\n// " + std::string(98, 'x') + "\n");
  plant("src/base/b.cpp", "// 50 micro signs in 100 bytes: " + std::string(20, ' ') +
                              "\xC2\xB5\xC2\xB5\xC2\xB5\xC2\xB5\xC2\xB5" + std::string(40, 'x') +
                              "\n");
  expect_one(check_columns(tree()), "src/base/a.cpp", 2, "101 columns");
}

TEST_F(Text, ATabIsFound) {
  plant("src/base/a.cpp", "// A.\n\tint x;\n");
  expect_one(check_columns(tree()), "src/base/a.cpp", 2, "tab");
}

TEST_F(Text, AFileThatOpensWithCodeIsFound) {
  plant("src/base/a.cpp", "\n#include <vector>\n// Late.\n");
  expect_one(check_opening_comments(tree()), "src/base/a.cpp", 1, "open with a comment");
}

TEST_F(Text, AnEmptyOpeningCommentIsFoundAndAShebangIsNoComment) {
  plant("scripts/run.sh", "#!/usr/bin/env bash\nset -e\n");
  plant("scripts/good.sh", "#!/usr/bin/env bash\n# Runs everything there is.\nset -e\n");
  expect_one(check_opening_comments(tree()), "scripts/run.sh", 1, "open with a comment");
}

TEST_F(Text, ALongFunctionIsFoundWithItsFirstLine) {
  const auto body = [](int lines) {
    std::string text;
    for (int i = 0; i < lines; ++i) text += "  work();\n";
    return text;
  };
  plant("src/base/a.cpp", "// A.\n\nvoid short_one() {\n" + body(78) +
                              "}\n\nvoid long_one(int a,\n" + "              int b) {\n" +
                              body(90) + "}\n");
  expect_one(check_function_lengths(tree()), "src/base/a.cpp", 84, "a function of 93 lines");
}

TEST_F(Text, ALongNamespaceStructOrTableIsNoFunction) {
  std::string lines;
  for (int i = 0; i < 120; ++i) lines += "  int x;\n";
  plant("src/base/a.cpp", "// A.\nnamespace a {\nstruct B {\n" + lines + "};\nconst int k[] = {\n" +
                              lines + "};\n}\n");
  expect_none(check_function_lengths(tree()));
}

TEST_F(Text, AHeaderWithoutAGuardIsFound) {
  plant("src/base/a.h", "// A.\nint a();\n");
  plant("src/base/b.h", "// B.\n#pragma once\n");
  expect_one(check_pragma_once(tree()), "src/base/a.h", 0, "#pragma once");
}

TEST_F(Text, APrintingLibraryIsFoundAndFormattingIntoABufferIsNot) {
  plant("src/base/a.cpp",
        "// A.\nvoid f(char* t) {\n  std::snprintf(t, 4, \"x\");\n"
        "  std::fprintf(stderr, \"x\");\n}\n");
  plant("apps/splitwave/main.cpp", "// Main.\nint main() { std::printf(\"x\"); }\n");
  expect_one(check_quiet_libraries(tree()), "src/base/a.cpp", 4, "neither prints nor exits");
}

TEST_F(Text, AnExitInALibraryIsFound) {
  plant("src/base/a.cpp", "// A.\nvoid f() { std::exit(1); }\n");
  expect_one(check_quiet_libraries(tree()), "src/base/a.cpp", 2, "neither prints nor exits");
}

TEST_F(Text, APathOutsideTheProjectIsFound) {
  plant("docs/a.md", "Read " + std::string("/home") + "/somebody/x.\n");
  expect_one(check_outside_paths(tree()), "docs/a.md", 1, "outside the project");
}

TEST_F(Reach, ASourceThatNoBuildFileNamesIsFound) {
  plant("src/base/CMakeLists.txt", "splitwave_layer(base SOURCES used.cpp)  # dead.cpp\n");
  plant("src/base/used.cpp", "// Used.\n");
  plant("src/base/dead.cpp", "// Named in a comment only.\n");
  expect_one(check_dead_files(tree()), "src/base/dead.cpp", 0, "no CMakeLists.txt names");
}

TEST_F(Reach, AVariableInANameStandsForAnyTextButALoneVariableForNothing) {
  plant("src/kernels/cuda/CMakeLists.txt", "add(decode_${variant}.cu ${sources})\n");
  plant("src/kernels/cuda/decode_v4.cu", "// V4.\n");
  plant("src/kernels/cuda/other.cu", "// Other.\n");
  expect_one(check_dead_files(tree()), "src/kernels/cuda/other.cu", 0, "no CMakeLists.txt names");
}

TEST_F(Reach, ASourceNamedFromAFolderAboveOrIncludedByAnotherIsReached) {
  plant("tests/CMakeLists.txt", "add_executable(t support/main.cpp)\n");
  plant("tests/support/main.cpp", "// Main.\n#include \"support/body.cpp\"\n");
  plant("tests/support/body.cpp", "// Body.\n");
  expect_none(check_dead_files(tree()));
}

TEST_F(Reach, AHeaderThatNothingIncludesIsFoundEvenIfItIncludesItself) {
  plant("src/base/a.h", "// A.\n#pragma once\n#include \"base/a.h\"\n");
  expect_one(check_dead_files(tree()), "src/base/a.h", 0, "no file includes");
}

TEST_F(Reach, A21stEntryInTheRootIsFound) {
  for (int i = 0; i < 19; ++i) plant("file" + std::to_string(i), "x");
  expect_none(check_root_entries(tree()));  // with scripts/: 20
  plant("one_more", "x");
  EXPECT_EQ(check_root_entries(tree()).size(), 1U);
}

TEST_F(Reach, BuildFoldersAreNotLookedAt) {
  plant("build/release/a.cpp", "int x;\n");
  plant(".carry/x/b.cpp", "int x;\n");
  EXPECT_EQ(tree().files(), std::vector<std::string>{"scripts/cmake/splitwave_layers.cmake"});
}

}  // namespace
}  // namespace splitwave::tidy
