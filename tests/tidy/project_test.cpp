// The house style, on the project's own tree: one test a rule, each finding printed with its place.
#include <gtest/gtest.h>

#include "tidy/rules.h"

namespace splitwave::tidy {
namespace {

const SourceTree& project() {
  static const SourceTree tree = SourceTree::tracked(SPLITWAVE_SOURCE_DIR);
  return tree;
}

void expect_none(const Findings& findings) {
  for (const Finding& finding : findings) ADD_FAILURE() << finding;
}

TEST(Project, HasFilesToLookAt) {
  EXPECT_TRUE(project().has("CMakeLists.txt"));
  EXPECT_TRUE(project().has("src/base/check.h"));
}

TEST(Project, NoFileIncludesALayerThatTheTableDoesNotAllow) {
  expect_none(check_layers(project()));
}

TEST(Project, NoFileUsesALibraryWhereItMayNot) { expect_none(check_third_party(project())); }

TEST(Project, NoFileIsLongerThanItsLimit) { expect_none(check_file_sizes(project())); }

TEST(Project, NoLineIsWiderThan100Columns) { expect_none(check_columns(project())); }

TEST(Project, EveryFileOpensWithAComment) { expect_none(check_opening_comments(project())); }

TEST(Project, NoFunctionIsLongerThanItsLimit) { expect_none(check_function_lengths(project())); }

TEST(Project, EveryHeaderIsGuarded) { expect_none(check_pragma_once(project())); }

TEST(Project, NoLibraryPrintsOrExits) { expect_none(check_quiet_libraries(project())); }

TEST(Project, NothingReadsOutsideTheProject) { expect_none(check_outside_paths(project())); }

TEST(Project, EveryFileIsBuiltOrIncluded) { expect_none(check_dead_files(project())); }

TEST(Project, TheRootFitsOnAScreen) { expect_none(check_root_entries(project())); }

TEST(Project, EveryLinkOfTheDocumentsLeadsSomewhere) { expect_none(check_doc_links(project())); }

TEST(Project, EveryCellOfTheResultsTableIsInItsRecord) {
  expect_none(check_results_table(project()));
}

TEST(Project, NoReportIsLongerThanItsProseLimit) { expect_none(check_report_prose(project())); }

}  // namespace
}  // namespace splitwave::tidy
