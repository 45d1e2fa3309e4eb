// result.json, REPORT.md and the operations of `ab`: round trips, re-derivation, what is refused,
// what a failing disk leaves behind.
#include "experiment/record.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/sha256.h"
#include "experiment/fake_run.h"
#include "experiment/git_repository.h"
#include "experiment/gnuplot.h"
#include "experiment/operations.h"
#include "experiment/plan_text.h"
#include "experiment/report.h"
#include "experiment/runner_output.h"

namespace splitwave::experiment {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::edited;
using test::FakeExecutor;
using test::GitSandbox;
using test::plan_text;

// The plan of plan_text.h in a repository of its own.
class RecordTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto top = box_.repository_with("experiments/0009-x/experiment.toml", plan_text());
    folder_ = top / "experiments/0009-x";
  }

  LoadedPlan plan() {
    auto plan = load_plan(folder_);
    EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message);
    return std::move(*plan);
  }

  // A run of the plan on an executor whose second arm is a tenth faster.
  RunRecord fake_run(const LoadedPlan& plan) {
    FakeExecutor fake(plan.resolved.run);
    fake.speed = [](int arm, int) { return arm == 1 ? 0.9 : 1.0; };
    auto run = run_experiment(plan.resolved.run, fake, {});
    EXPECT_TRUE(run.ok()) << (run.ok() ? "" : run.error().message);
    return std::move(*run);
  }

  ResultRecord record() {
    const LoadedPlan loaded = plan();
    auto record = begin_record(loaded, folder_, false);
    EXPECT_TRUE(record.ok()) << (record.ok() ? "" : record.error().message);
    record->runs.push_back(fake_run(loaded));
    return std::move(*record);
  }

  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  GitSandbox box_;
  fs::path folder_;
};

TEST_F(RecordTest, RoundTripsAndDerivesTheSameVerdictsFromRawSamples) {
  const ResultRecord record = this->record();
  const std::string text = to_json(record);
  const auto back = parse_result(text, "result.json");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(to_json(*back), text) << "what is read back is written back byte for byte";
  EXPECT_EQ(report_text(*back, true), report_text(record, true));
  EXPECT_EQ(back->plan_state, PlanState::registered);
  EXPECT_EQ(back->sealed.identity.plan_sha256, sha256_hex(plan_text()));
}

TEST_F(RecordTest, HoldsTheFieldsOfTheContract) {
  const ResultRecord record = this->record();
  const json summary = json::parse(summary_json(record, "d"));
  EXPECT_EQ(summary["verdict"]["kind"], "adopt");
  ASSERT_EQ(summary["points"].size(), 2U);
  EXPECT_EQ(summary["points"][0]["verdict"], "FASTER");
  EXPECT_FALSE(summary["gates"].empty());
  const json file = json::parse(to_json(record));
  EXPECT_EQ(file["schema"], "splitwave-result");
  EXPECT_EQ(file["plan"]["commit"].get<std::string>().size(), 40U);
  EXPECT_EQ(file["plan"]["blob"].get<std::string>().size(), 40U);
}

TEST_F(RecordTest, RefusesAnEditedVerdictAnEditedSampleAndAnEditedPlan) {
  const json good = json::parse(to_json(record()));
  const auto refusal = [](const json& edited_json) {
    const auto r = parse_result(edited_json.dump(), "result.json");
    return r.ok() ? std::string("accepted") : r.error().message;
  };
  EXPECT_EQ(refusal(good), "accepted");
  json bad = good;
  bad["runs"][0]["derived"]["points"][0]["verdict"] = "SLOWER";
  EXPECT_NE(refusal(bad).find("runs[0].derived.points: the stored value is not what the raw"),
            std::string::npos);
  bad = good;
  bad["runs"][0]["raw"]["samples"][5][4] = 1.0;
  EXPECT_NE(refusal(bad).find("is not what the raw samples give"), std::string::npos);
  bad = good;
  bad["plan"]["text"] = edited(plan_text(), "rounds = 8", "rounds = 9");
  EXPECT_NE(refusal(bad).find("plan.sha256"), std::string::npos) << refusal(bad);
  bad = good;
  bad["sealed"][10] = "run cache warm";
  EXPECT_NE(refusal(bad).find("sealed: sealed plan: its SHA-256"), std::string::npos);
}

TEST_F(RecordTest, NamesThePathOfWhatTheSchemaForbids) {
  const json good = json::parse(to_json(record()));
  const auto refusal = [&](const char* pointer, const json& value) {
    json bad = good;
    bad[json::json_pointer(pointer)] = value;
    const auto r = parse_result(bad.dump(), "result.json");
    return r.ok() ? std::string("accepted") : r.error().message;
  };
  EXPECT_EQ(refusal("/version", 2), "result.json: version: 2 is unknown; this build reads 1");
  EXPECT_EQ(refusal("/schema", "x"), "result.json: schema: is not splitwave-result");
  EXPECT_EQ(refusal("/runs", json::array()), "result.json: holds no run");
  EXPECT_EQ(refusal("/runs/0/raw/samples/3", json::array({0, 0, 0})),
            "result.json: runs[0].raw.samples[3]: is not a row of 7 numbers");
  EXPECT_EQ(refusal("/runs/0/raw/samples/3/1", 9),
            "result.json: runs[0].raw.samples[3]: its round, point, slot or direction was not "
            "measured");
  EXPECT_EQ(refusal("/runs/0/raw/samples/3/4", -1.0),
            "result.json: runs[0].raw.samples[3]: a time is not positive");
  EXPECT_EQ(
      refusal("/runs/0/raw/rounds/1/0", 0),
      "result.json: runs[0].raw.rounds[1]: its round is out of order or beyond rounds_planned");
  EXPECT_EQ(refusal("/runs/0/raw/end", "fine"), "result.json: runs[0].raw.end: 'fine' is unknown");
  EXPECT_EQ(refusal("/runs/0/raw/gates/0/passed", false),
            "result.json: runs[0].raw.gates[0]: failed, but arm_ended says that the arm went on");
  EXPECT_EQ(refusal("/runs/0/raw/arm_ended", json::array({0})),
            "result.json: runs[0].raw.arm_ended: has not one value an arm");
  json truncated = good;
  truncated["runs"][0]["raw"]["samples"].erase(0);
  const auto r = parse_result(truncated.dump(), "result.json");
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().message.find("95 of 96 samples are there"), std::string::npos)
      << r.error().message;
  EXPECT_EQ(parse_result("{", "f").error().message, "f: is not a JSON object");
}

TEST_F(RecordTest, RefusesASecondResultUnlessARunIsAdded) {
  const LoadedPlan loaded = plan();
  ASSERT_TRUE(write_file(folder_ / "result.json", to_json(record())).ok());
  const auto again = begin_record(loaded, folder_, false);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().kind, ErrorKind::bad_input);
  EXPECT_NE(again.error().message.find("--add-run"), std::string::npos);
  auto added = begin_record(loaded, folder_, true);
  ASSERT_TRUE(added.ok()) << added.error().message;
  added->runs.push_back(fake_run(loaded));
  EXPECT_EQ(added->runs.size(), 2U);
  EXPECT_NE(report_text(*added, true).find("## Earlier runs"), std::string::npos);
  const auto elsewhere = begin_record(loaded, folder_ / "deep" / "out", false);
  EXPECT_TRUE(elsewhere.ok()) << "--out makes its folder";
}

TEST_F(RecordTest, RefusesToAddARunOfAChangedPlan) {
  ASSERT_TRUE(write_file(folder_ / "result.json", to_json(record())).ok());
  GitSandbox::write(folder_ / "experiment.toml", edited(plan_text(), "rounds = 8", "rounds = 9"));
  box_.run("git add -A", folder_);
  box_.run("git commit -q -m changed", folder_);
  const auto added = begin_record(plan(), folder_, true);
  ASSERT_FALSE(added.ok());
  EXPECT_NE(added.error().message.find("another plan"), std::string::npos);
}

TEST_F(RecordTest, WritesPlanResultReportAndPlotsAndNothingElse) {
  Status plots;
  const Status written = write_record(record(), folder_, plots);
  ASSERT_TRUE(written.ok()) << written.error().message;
  ASSERT_TRUE(plots.ok()) << plots.error().message;
  EXPECT_EQ(files(), (std::vector<std::string>{"REPORT.md", "experiment.toml", "result.json",
                                               "step_time.svg", "throughput.svg"}));
  const auto report = read_file(folder_ / "REPORT.md", 1 << 20);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->rfind("# 0009-x: adopt free\n", 0), 0U) << report->substr(0, 60);
  int prose = 0;
  std::istringstream lines(*report);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line[0] != '|' && line[0] != '!') ++prose;
  }
  EXPECT_LE(prose, 60);
  const auto entries = list_experiments(folder_.parent_path());
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].state, "adopt");
  EXPECT_EQ(entries[0].runs, 1);
}

TEST_F(RecordTest, MarksAnInterruptedRunAsPartialEverywhere) {
  const LoadedPlan loaded = plan();
  FakeExecutor fake(loaded.resolved.run);
  std::atomic<bool> interrupted{false};
  fake.before_sample = [&](int samples) {
    interrupted = samples >= 40;
    return Status();
  };
  auto run = run_experiment(loaded.resolved.run, fake, {&interrupted, false});
  ASSERT_TRUE(run.ok());
  auto record = begin_record(loaded, folder_, false);
  ASSERT_TRUE(record.ok());
  record->runs.push_back(std::move(*run));
  Status plots;
  ASSERT_TRUE(write_record(*record, folder_, plots).ok());
  const auto back = read_result(folder_);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->runs[0].end, RunEnd::interrupted);
  EXPECT_EQ(back->runs[0].rounds.size(), 3U);
  EXPECT_NE(report_text(*back, true).find("not complete** (interrupted"), std::string::npos);
  EXPECT_EQ(list_experiments(folder_.parent_path())[0].state, "partial");
  EXPECT_EQ(judge_run(*back, false).error().kind, ErrorKind::environment);
}

TEST_F(RecordTest, JudgesGatesAndRequiredNoRegression) {
  const LoadedPlan loaded = plan();
  FakeExecutor slow(loaded.resolved.run);
  slow.speed = [](int arm, int) { return arm == 1 ? 1.1 : 1.0; };
  auto record = begin_record(loaded, folder_, false);
  ASSERT_TRUE(record.ok());
  auto run = run_experiment(loaded.resolved.run, slow, {});
  ASSERT_TRUE(run.ok());
  record->runs.push_back(std::move(*run));
  EXPECT_TRUE(judge_run(*record, false).ok());
  const Status required = judge_run(*record, true);
  ASSERT_FALSE(required.ok());
  EXPECT_EQ(required.error().kind, ErrorKind::gate);
  record->runs.back().gates.push_back({1, 1, "c4", "accuracy", false, 0.1, "row 2 head 3"});
  EXPECT_EQ(judge_run(*record, false).error().message,
            "arm free failed the accuracy gate at C3, stream c4: row 2 head 3");
}

TEST_F(RecordTest, ImportsWhatTheRunnerWroteForThisPlanOnly) {
  const LoadedPlan loaded = plan();
  const auto sealed = seal_plan(loaded);
  ASSERT_TRUE(sealed.ok()) << sealed.error().message;
  const std::string output = runner_output(*sealed, fake_run(loaded));
  const auto run = import_run(loaded, output, "x.run");
  ASSERT_TRUE(run.ok()) << run.error().message;
  auto record = begin_record(loaded, folder_, false);
  ASSERT_TRUE(record.ok());
  record->runs.push_back(*run);
  EXPECT_TRUE(parse_result(to_json(*record), "r").ok());

  std::string damaged = output;
  damaged[output.size() / 2] ^= 1;
  EXPECT_NE(import_run(loaded, damaged, "x.run").error().message.find("SHA-256"),
            std::string::npos);
  GitSandbox::write(folder_ / "experiment.toml", edited(plan_text(), "rounds = 8", "rounds = 9"));
  box_.run("git add -A", folder_);
  box_.run("git commit -q -m changed", folder_);
  EXPECT_NE(import_run(plan(), output, "x.run").error().message.find("another plan"),
            std::string::npos);
}

// A process that may write no more than limit bytes a file stands for a full disk.
TEST_F(RecordTest, LeavesNoPartialFileWhenTheDiskIsFull) {
  const ResultRecord record = this->record();
  const auto before = files();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{2048, 2048};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(10);
    Status plots;
    const Status written = write_record(record, folder_, plots);
    if (written.ok()) _exit(11);
    _exit(exit_status(written.error().kind));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_EQ(files(), before);
}

// /proc is read-only for everyone, root included.
TEST_F(RecordTest, RefusesAFolderThatCannotBeWrittenBeforeTheRun) {
  const auto record = begin_record(plan(), "/proc/splitwave", false);
  ASSERT_FALSE(record.ok());
  EXPECT_EQ(record.error().kind, ErrorKind::environment);
  EXPECT_NE(record.error().message.find("/proc/splitwave"), std::string::npos);
}

TEST(Operations, NumbersNewExperimentsAndRefusesOddNames) {
  const GitSandbox box;
  const std::string folder = box.folder("experiments");
  const auto first = new_experiment(folder, "a-b");
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(*first, folder + "/0000-a-b");
  EXPECT_EQ(*new_experiment(folder, "c"), folder + "/0001-c");
  for (const char* bad : {"", "A", "a/b", "..", "-x", "a b"}) {
    EXPECT_FALSE(new_experiment(folder, bad).ok()) << bad;
  }
  const auto entries = list_experiments(folder);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].state, "planned");
}

TEST(Operations, SealsOnlyACommittedPlan) {
  const GitSandbox box;
  GitSandbox::write(box.folder("plain") / "experiment.toml", plan_text());
  const auto plan = load_plan(box.root / "plain");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->registration.state, PlanState::no_repository);
  EXPECT_FALSE(seal_plan(*plan).ok());
}

TEST(Gnuplot, SaysHowToGetItWhenItIsMissing) {
  const auto svg = run_gnuplot("plot x\n", "/nowhere/gnuplot");
  ASSERT_FALSE(svg.ok());
  EXPECT_EQ(svg.error().kind, ErrorKind::environment);
  EXPECT_NE(svg.error().message.find("apt-get install gnuplot-nox"), std::string::npos);
}

TEST(Gnuplot, ReportsItsOwnWordsOnABadScript) {
  const auto svg = run_gnuplot("set terminal svg\nplot nonsense(\n");
  ASSERT_FALSE(svg.ok());
  EXPECT_NE(svg.error().message.find("gnuplot"), std::string::npos);
}

}  // namespace
}  // namespace splitwave::experiment
