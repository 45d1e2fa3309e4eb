// `splitwave fit` and `splitwave project` as a user runs them: JSON fields, exit statuses, and the
// source's own numbers, whose contradictions must each be named.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/temp_dir.h"

namespace splitwave {
namespace {

struct Ran {
  int status = -1;
  std::string out;  // stdout and stderr when the command redirects it
};

Ran run(const std::string& arguments) {
  Ran ran;
  std::FILE* pipe = popen((std::string(SPLITWAVE_PROGRAM) + " " + arguments).c_str(), "r");
  if (pipe == nullptr) return ran;
  char buffer[4096];
  while (const std::size_t count = std::fread(buffer, 1, sizeof buffer, pipe)) {
    ran.out.append(buffer, count);
  }
  const int status = pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

bool any_holds(const nlohmann::json& texts, const std::vector<std::string>& words) {
  for (const auto& text : texts) {
    const auto& line = text.get_ref<const std::string&>();
    bool all = true;
    for (const auto& word : words) all = all && line.find(word) != std::string::npos;
    if (all) return true;
  }
  return false;
}

TEST(Project, NamesEveryContradictionInTheSourcesNumbers) {
  const Ran ran =
      run("project --json --fixed-ms 18 --marginal-ms 1.05 --share-ms 0.79 --speedup 1.25:1.8 "
          "--at 64,96 --measured 64:811,96:845 --claim-marginal-ms 0.61:0.89 "
          "--claim-tok-s 930:1100");
  ASSERT_EQ(ran.status, 0);
  const auto json = nlohmann::json::parse(ran.out);
  const auto& named = json.at("inconsistencies");
  EXPECT_TRUE(any_holds(named, {"118.8 ms", "808 tok/s", "845", "4.4 %"}));
  EXPECT_TRUE(any_holds(named, {"811", "845", "9.5 ms", "1.084 ms"}));
  EXPECT_TRUE(any_holds(named, {"1.80x", "0.699 ms", "0.610 ms", "2.26x"}));
  EXPECT_TRUE(any_holds(named, {"1254 tok/s", "1100"}));
  EXPECT_TRUE(any_holds(named, {"928", "+14.8 %", "808", "+9.8 %", "845"}));
  EXPECT_EQ(json.at("points").size(), 2U);
  EXPECT_NEAR(json.at("intervals").at("marginal_ms").at(0).get<double>(), 0.6989, 1e-4);
}

TEST(Project, NamesNothingWhenTheNumbersFitTogether) {
  const Ran ran =
      run("project --json --fixed-ms 10 --marginal-ms 1 --share-ms 0.5 --speedup 2:2 --at 90 "
          "--measured 45:818.18,90:900 --claim-marginal-ms 0.75:0.75");
  ASSERT_EQ(ran.status, 0);
  EXPECT_TRUE(nlohmann::json::parse(ran.out).at("inconsistencies").empty()) << ran.out;
}

TEST(Project, RefusesMalformedRangesWithTheFlagAndARemedy) {
  const std::string line = "project --fixed-ms 1 --marginal-ms 1 --share-ms 1 --at 8 ";
  for (const char* bad : {"--speedup fast", "--speedup 1:", "--speedup 2:1", "--speedup 0:1",
                          "--speedup 1:2 --measured 64", "--speedup 1:2 --measured 0:5",
                          "--speedup 1:2 --claim-tok-s x:2"}) {
    const Ran ran = run(line + bad + " 2>&1");
    EXPECT_EQ(ran.status, 2) << bad;
    EXPECT_NE(ran.out.find("what works"), std::string::npos) << bad << ": " << ran.out;
  }
}

TEST(Fit, PrintsTheContractsFieldsAndDrawsThePlot) {
  const test::TempDir folder;
  std::ofstream csv(folder.file("steps.csv"));
  csv << "session,concurrency,step_ms\n";
  for (int session = 0; session < 4; ++session) {
    for (const int c : {1, 8, 32, 64, 80, 96}) {
      csv << session << ',' << c << ',' << (18 + 1.05 * c) * (1 + 0.002 * session) << '\n';
    }
  }
  csv.close();
  const Ran ran = run("fit --json " + folder.file("steps.csv"));
  ASSERT_EQ(ran.status, 0);
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_NEAR(json.at("fixed_ms").get<double>(), 18.05, 0.03);
  EXPECT_NEAR(json.at("marginal_ms").get<double>(), 1.053, 0.002);
  EXPECT_EQ(json.at("points").size(), 6U);
  EXPECT_LT(json.at("intervals").at("fixed_ms").at(0), json.at("intervals").at("fixed_ms").at(1));
  EXPECT_TRUE(any_holds(json.at("inconsistencies"), {"only 4 sessions"}));
  if (std::system("command -v gnuplot >/dev/null") != 0) GTEST_SKIP() << "no gnuplot";
  EXPECT_EQ(run("fit " + folder.file("steps.csv") + " --plot " + folder.file("r.svg")).status, 0);
  EXPECT_TRUE(std::filesystem::exists(folder.file("r.svg")));
}

TEST(Fit, RefusesBadFilesWithStatus2AndALackingFolderWithStatus3) {
  const test::TempDir folder;
  std::ofstream(folder.file("bad.csv")) << "session,concurrency,step_ms\na,1,2\na,64,slow\n";
  const Ran bad = run("fit " + folder.file("bad.csv") + " 2>&1");
  EXPECT_EQ(bad.status, 2);
  for (const char* word : {"bad.csv:3", "step_ms='slow'", "what works"}) {
    EXPECT_NE(bad.out.find(word), std::string::npos) << bad.out;
  }
  EXPECT_EQ(run("fit " + folder.file("none.csv") + " 2>&1").status, 2);
  std::ofstream(folder.file("one.csv")) << "session,concurrency,step_ms\na,1,2\nb,1,2\n";
  EXPECT_EQ(run("fit " + folder.file("one.csv") + " 2>&1").status, 2);
  std::ofstream(folder.file("good.csv")) << "session,concurrency,step_ms\na,1,2\na,8,4\n";
  EXPECT_EQ(
      run("fit " + folder.file("good.csv") + " --plot " + folder.file("no/r.svg") + " 2>&1").status,
      3);
}

}  // namespace
}  // namespace splitwave
