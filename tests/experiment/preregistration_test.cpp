// Every state that a plan can be in, in real repositories.
#include "experiment/preregistration.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "base/sha256.h"
#include "experiment/git_repository.h"

namespace splitwave::experiment {
namespace {

using test::GitSandbox;

const std::string k_plan = "experiments/0001-x/experiment.toml";

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  char buffer[256] = {};
  const char* line = fgets(buffer, sizeof buffer, pipe);
  pclose(pipe);
  std::string text = line == nullptr ? "" : line;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

TEST(Preregistration, FindsACommittedPlanWithCommitBlobAndHash) {
  const GitSandbox box;
  const auto top = box.repository_with(k_plan, "version = 1\n");
  const auto found = look_up_plan(top / k_plan, "version = 1\n");
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->state, PlanState::registered);
  EXPECT_EQ(found->path, k_plan);
  EXPECT_EQ(found->commit, output_of("git -C " + top.string() + " rev-parse HEAD"));
  EXPECT_EQ(found->blob, output_of("git hash-object " + (top / k_plan).string()));
  EXPECT_EQ(found->plan_sha256, sha256_hex("version = 1\n"));
}

TEST(Preregistration, RefusesAPlanThatWasChangedAfterTheCommit) {
  const GitSandbox box;
  const auto top = box.repository_with(k_plan, "version = 1\n");
  GitSandbox::write(top / k_plan, "version = 1\nrounds = 9\n");
  const auto found = look_up_plan(top / k_plan, "version = 1\nrounds = 9\n");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().kind, ErrorKind::bad_input);
  EXPECT_NE(found.error().message.find("differs from what HEAD"), std::string::npos);
  box.run("git add -A", top);  // staged is not committed
  EXPECT_FALSE(look_up_plan(top / k_plan, "version = 1\nrounds = 9\n").ok());
  box.run("git commit -q -m second", top);
  EXPECT_TRUE(look_up_plan(top / k_plan, "version = 1\nrounds = 9\n").ok());
}

TEST(Preregistration, RefusesAPlanThatNobodyCommitted) {
  const GitSandbox box;
  const auto top = box.repository_with("README", "x");
  GitSandbox::write(top / k_plan, "p");
  const auto found = look_up_plan(top / k_plan, "p");
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message.find("does not hold it"), std::string::npos);
  EXPECT_NE(found.error().message.find("git commit"), std::string::npos) << "the remedy";
}

TEST(Preregistration, RefusesARepositoryWithoutACommit) {
  const GitSandbox box;
  const auto top = box.folder("repo");
  box.run("git init -q .", top);
  GitSandbox::write(top / k_plan, "p");
  const auto found = look_up_plan(top / k_plan, "p");
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message.find("no commit yet"), std::string::npos)
      << found.error().message;
}

TEST(Preregistration, WorksInAShallowClone) {
  const GitSandbox box;
  const auto top = box.repository_with(k_plan, "p");
  GitSandbox::write(top / "later", "x");
  box.run("git add -A", top);
  box.run("git commit -q -m later", top);
  box.run("git clone -q --depth 1 file://" + top.string() + " shallow", box.root);
  const auto found = look_up_plan(box.root / "shallow" / k_plan, "p");
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->state, PlanState::registered);
}

TEST(Preregistration, WorksInALinkedWorktree) {
  const GitSandbox box;
  const auto top = box.repository_with(k_plan, "p");
  box.run("git worktree add -q ../linked", top);
  const auto found = look_up_plan(box.root / "linked" / k_plan, "p");
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->path, k_plan);
}

TEST(Preregistration, RecordsThatThereIsNoRepository) {
  const GitSandbox box;
  const auto folder = box.folder("plain");
  GitSandbox::write(folder / "experiment.toml", "p");
  const auto found = look_up_plan(folder / "experiment.toml", "p");
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->state, PlanState::no_repository);
  EXPECT_EQ(found->commit, "none");
}

TEST(Preregistration, NamesTheRemedyWhenAnotherUserOwnsTheRepository) {
  if (getuid() != 0) GTEST_SKIP() << "needs root to give a repository away";
  const GitSandbox box;
  const auto top = box.repository_with(k_plan, "p");
  ASSERT_EQ(std::system(("chown -R 12345:12345 " + top.string()).c_str()), 0);
  std::filesystem::permissions(box.root, std::filesystem::perms(0755));
  // Root may read anybody's repository: the look-up is a third user's, in a child.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    setenv("HOME", "/nowhere", 1);
    if (setgid(54321) != 0 || setuid(54321) != 0) _exit(10);
    const auto found = look_up_plan(top / k_plan, "p");
    if (found.ok()) _exit(11);
    const bool has_remedy =
        found.error().message.find("git config --global --add safe.directory") != std::string::npos;
    _exit(has_remedy ? exit_status(found.error().kind) : 12);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

}  // namespace
}  // namespace splitwave::experiment
