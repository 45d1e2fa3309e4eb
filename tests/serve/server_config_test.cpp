// The configuration file and its refusals.
#include "serve/server_config.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/files.h"
#include "support/temp_dir.h"

namespace splitwave::serve {
namespace {

std::string refusal(const std::string& toml) {
  ServerConfig config;
  const Status status = apply_toml(toml, "serve.toml", config);
  return status.ok() ? "" : status.error().message;
}

TEST(ServerConfig, ReadsEveryKindOfField) {
  ServerConfig config;
  const Status status = apply_toml(
      "[server]\nlisten = \"127.0.0.1:9\"\n[limits]\nbody_bytes_max = 2048\n"
      "[scheduler]\nsequences_max = 5\n[engine]\nprefix_reuse = false\n",
      "serve.toml", config);
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(config.listen, "127.0.0.1:9");
  EXPECT_EQ(config.http.body_bytes_max, 2048);
  EXPECT_EQ(config.scheduler.sequences_max, 5);
  EXPECT_FALSE(config.engine.prefix_reuse);
}

TEST(ServerConfig, RefusesWithFileLineFieldAndRemedy) {
  EXPECT_EQ(refusal("[server]\nlisten = 7\n"), "serve.toml:2: server.listen: expected a string");
  EXPECT_NE(refusal("[server]\nlissten = \"x\"\n").find("did you mean listen?"), std::string::npos);
  EXPECT_NE(refusal("[sever]\n").find("did you mean server?"), std::string::npos);
  EXPECT_NE(refusal("[scheduler]\nsequences_max = 0\n").find("expected an integer of 1..4096"),
            std::string::npos);
  EXPECT_EQ(refusal("[scheduler\n").substr(0, 13), "serve.toml:1:");
}

TEST(ServerConfig, AnAddressBeyondLoopbackNeedsAKeyFile) {
  ServerConfig config;
  EXPECT_TRUE(check_config(config).ok());
  config.listen = "0.0.0.0:8000";
  EXPECT_FALSE(check_config(config).ok());
  config.api_key_file = "keys";
  EXPECT_TRUE(check_config(config).ok());
  config.listen = "[::1]:8000";
  config.api_key_file.clear();
  EXPECT_TRUE(check_config(config).ok());
  for (const char* bad : {"", "8000", "127.0.0.1", "127.0.0.1:70000", "host:80", "::1:80",
                          "127.0.0.1:80x", "[127.0.0.1]:80"}) {
    config.listen = bad;
    EXPECT_FALSE(check_config(config).ok()) << bad;
  }
}

TEST(ServerConfig, TheBudgetMustHoldBothSides) {
  ServerConfig config;
  config.scheduler.sequences_max = 500;
  const Status status = check_config(config);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("tokens_per_step 512"), std::string::npos);
}

TEST(ServerConfig, KeysThatOthersMayReadOrThatAreShortAreRefused) {
  const splitwave::test::TempDir folder;
  const std::string file = folder.file("keys");
  ASSERT_TRUE(write_file(file, "0123456789abcdef\n").ok());
  ASSERT_EQ(chmod(file.c_str(), 0644), 0);
  EXPECT_FALSE(read_api_keys(file).ok());
  ASSERT_EQ(chmod(file.c_str(), 0640), 0);
  ASSERT_TRUE(read_api_keys(file).ok());
  EXPECT_EQ(read_api_keys(file)->size(), 1U);
  ASSERT_TRUE(write_file(file, "short\n").ok());
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  EXPECT_FALSE(read_api_keys(file).ok());
  EXPECT_FALSE(read_api_keys(folder.file("absent")).ok());
}

}  // namespace
}  // namespace splitwave::serve
