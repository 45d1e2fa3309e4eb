// Whole files: what a failed write leaves behind (nothing), and what the errors say.
#include "base/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

namespace splitwave {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "splitwave_files_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] int entries() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_), {}));
  }
  fs::path folder_;
};

TEST_F(Files, RoundTripsEveryByteAndReplacesWhatWasThere) {
  const std::string path = folder_ / "a";
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  ASSERT_TRUE(write_file(path, "before").ok());
  ASSERT_TRUE(write_file(path, bytes).ok());
  const auto back = read_file(path, 256);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(*back, bytes);
  EXPECT_EQ(entries(), 1);
}

TEST_F(Files, RefusesMissingOversizedAndIrregularFilesByName) {
  const std::string path = folder_ / "a";
  EXPECT_NE(read_file(path, 10).error().message.find(path), std::string::npos);
  ASSERT_TRUE(write_file(path, "12345678901").ok());
  const auto big = read_file(path, 10);
  ASSERT_FALSE(big.ok());
  EXPECT_NE(big.error().message.find("11 bytes; at most 10"), std::string::npos);
  EXPECT_EQ(read_file(folder_, 10).error().kind, ErrorKind::bad_input);
  EXPECT_NE(read_file("/dev/null", 10).error().message.find("not a regular file"),
            std::string::npos);
}

TEST_F(Files, RefusesToReplaceADeviceByAFile) {
  const Status status = write_file("/dev/full", "x");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::environment);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

// A process that may write no more than limit bytes a file: the closest to a full disk that needs
// no privileges. Runs the write in a child, so that the limit does not outlive the test.
TEST_F(Files, LeavesTheOldFileAndNoPartialFileWhenTheWriteFails) {
  const std::string path = folder_ / "record";
  ASSERT_TRUE(write_file(path, "old").ok());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(10);
    const Status status = write_file(path, std::string(100'000, 'x'));
    if (status.ok()) _exit(11);
    if (status.error().kind != ErrorKind::environment) _exit(12);
    if (status.error().message.find("ulimit") == std::string::npos) _exit(13);
    _exit(0);
  }
  int wait_status = 0;
  ASSERT_EQ(waitpid(child, &wait_status, 0), child);
  ASSERT_TRUE(WIFEXITED(wait_status));
  EXPECT_EQ(WEXITSTATUS(wait_status), 0);
  EXPECT_EQ(*read_file(path, 10), "old");
  EXPECT_EQ(entries(), 1) << "a temporary file was left behind";
}

TEST_F(Files, NamesTheFolderThatCannotBeWritten) {
  const Status status = write_file("/proc/splitwave", "x");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::environment);
  EXPECT_NE(status.error().message.find("/proc/splitwave"), std::string::npos);
  EXPECT_EQ(make_folder("/proc/splitwave").error().kind, ErrorKind::environment);
}

TEST_F(Files, AcceptsAFolderThatExistsButNotAFileOfThatName) {
  EXPECT_TRUE(make_folder(folder_ / "new").ok());
  EXPECT_TRUE(make_folder(folder_ / "new").ok());
  ASSERT_TRUE(write_file(folder_ / "file", "x").ok());
  EXPECT_FALSE(make_folder(folder_ / "file").ok());
}

}  // namespace
}  // namespace splitwave
