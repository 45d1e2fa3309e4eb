// The document rules on planted documents: broken links, and figures that their record does not
// hold.
#include "tidy/planted_tree.h"

namespace splitwave::tidy {
namespace {

class Docs : public Planted {};

class ResultsTable : public Planted {
 protected:
  // A README with one row of these cells.
  void readme(const std::string& cells) {
    plant(
        "experiments/0001-a/result.json",
        R"({"points": [{"ratio": 1.1839, "gain": 0.1279, "tok_s": 1254.4, "verdict": "FASTER"}]})");
    plant("README.md", "# p\n\n<!-- results -->\n| what | a | b |\n|---|---|---|\n| row 7 | " +
                           cells + " |\n<!-- /results -->\n");
  }
  static std::string link(const std::string& text, const std::string& field) {
    return "[" + text + "](experiments/0001-a/result.json#/points/0/" + field + ")";
  }
};

TEST_F(Docs, ALinkToAMissingFileIsFoundWithItsLine) {
  plant("docs/a.md", "# A\n\nSee [b](b.md) and [c](../README.md).\n");
  plant("README.md", "# R\n");
  expect_one(check_doc_links(tree()), "docs/a.md", 3, "'b.md' leads nowhere");
}

TEST_F(Docs, LinksToFoldersWebPagesAndHeadingsAreFine) {
  plant("docs/a.md",
        "# The `A` file, part 2\n[f](.) [w](https://example.org/x) [h](#the-a-file-part-2)\n");
  expect_none(check_doc_links(tree()));
}

TEST_F(Docs, AnAnchorWithoutItsHeadingIsFound) {
  plant("a.md", "# A\n[b](b.md#set-up)\n");
  plant("b.md", "# B\n## Setup\n");
  expect_one(check_doc_links(tree()), "a.md", 2, "names no heading");
}

TEST_F(Docs, ALinkOutOfTheProjectAndABrokenReferenceLinkAreFound) {
  plant("a.md", "[x](../../elsewhere.md)\n");
  expect_one(check_doc_links(tree()), "a.md", 1, "leads out of the project");
  plant("a.md", "see [x][1]\n\n[1]: gone.md\n");
  expect_one(check_doc_links(tree()), "a.md", 3, "leads nowhere");
}

TEST_F(Docs, LinksInCodeAreText) {
  plant("a.md", "`[x](gone.md)`\n```\n[y](gone.md)\n```\n");
  expect_none(check_doc_links(tree()));
}

TEST_F(Docs, AReportWith61LinesOfProseIsFoundAndTablesDoNotCount) {
  std::string text = "# Report\n\n| a |\n|---|\n";
  for (int i = 0; i < 60; ++i) text += "A line of prose.\n";
  plant("experiments/0001-a/REPORT.md", text);
  expect_none(check_report_prose(tree()));
  plant("experiments/0001-a/REPORT.md", text + "One more.\n");
  expect_one(check_report_prose(tree()), "experiments/0001-a/REPORT.md", 0, "61 lines of prose");
}

TEST_F(ResultsTable, TrueCellsPassWithRoundingUnitsSignsAndDashes) {
  readme(link("1.18", "ratio") + " | " + link("+12.8 %", "gain"));
  expect_none(check_results_table(tree()));
  readme(link("1,254 tok/s", "tok_s") + " | " + link("FASTER", "verdict"));
  expect_none(check_results_table(tree()));
  readme(link("1.1839x", "ratio") + " | \xE2\x80\x94");
  expect_none(check_results_table(tree()));
}

TEST_F(ResultsTable, AFigureThatTheRecordDoesNotHoldIsFound) {
  readme(link("1.19", "ratio") + " | -");
  expect_one(check_results_table(tree()), "README.md", 6, "the record says 1.1839");
}

TEST_F(ResultsTable, AWrongVerdictOrSignIsFound) {
  readme(link("SAME", "verdict") + " | -");
  expect_one(check_results_table(tree()), "README.md", 6, "'FASTER'");
  readme(link("-12.8 %", "gain") + " | -");
  EXPECT_EQ(check_results_table(tree()).size(), 1U);
}

TEST_F(ResultsTable, ACellWithoutARecordIsFound) {
  readme("1.18 | -");
  expect_one(check_results_table(tree()), "README.md", 6, "names no record");
}

TEST_F(ResultsTable, AMissingRecordFieldOrPointerIsFound) {
  readme("[1.18](experiments/0002-b/result.json#/x) | -");
  expect_one(check_results_table(tree()), "README.md", 6, "does not exist");
  readme(link("1.18", "ratios") + " | -");
  expect_one(check_results_table(tree()), "README.md", 6, "has nothing at");
  readme("[1.18](experiments/0001-a/result.json) | -");
  expect_one(check_results_table(tree()), "README.md", 6, "no JSON pointer");
}

TEST_F(ResultsTable, AReadmeWithoutATableOrWithAnEmptyOneIsFound) {
  plant("README.md", "# p\n");
  expect_none(check_results_table(tree()));  // nothing measured yet
  plant("experiments/0001-a/result.json", "{}");
  EXPECT_EQ(check_results_table(tree()).size(), 1U);
  plant("README.md", "<!-- results -->\n| a |\n|---|\n<!-- /results -->\n");
  EXPECT_EQ(check_results_table(tree()).size(), 1U);
}

}  // namespace
}  // namespace splitwave::tidy
