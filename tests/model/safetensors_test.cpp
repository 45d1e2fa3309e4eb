// Safetensors: the round trip and every way in which a header can lie.
#include "model/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "support/temp_dir.h"

namespace splitwave::model {
namespace {

constexpr std::uint8_t k_data[64] = {};

Expected<std::vector<Tensor>> parse(const std::string& header, std::int64_t data_bytes = 64) {
  return parse_safetensors_header(header, k_data, data_bytes, "f");
}

TEST(Safetensors, ReadsBackWhatItWrote) {
  const test::TempDir dir;
  const float a[6] = {1, 2, 3, 4, 5, 6};
  const std::uint8_t b[3] = {7, 8, 9};
  const std::string path = dir.file("m.safetensors");
  ASSERT_TRUE(write_safetensors(path, {{"a", DType::f32, {2, 3}, a},
                                       {"b", DType::f8_e8m0, {3}, b},
                                       {"scalar", DType::f32, {}, a}})
                  .ok());
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_EQ(file->tensors().size(), 3U);
  EXPECT_EQ(file->tensors()[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(file->tensors()[0].data, a, sizeof a), 0);
  EXPECT_EQ(std::memcmp(file->tensors()[1].data, b, sizeof b), 0);
  EXPECT_EQ(file->tensors()[2].bytes, 4);
}

TEST(Safetensors, RefusesAHeaderThatDoesNotMatchTheData) {
  const auto refused = [](const std::string& header, const char* why) {
    const auto tensors = parse(header);
    EXPECT_FALSE(tensors.ok()) << header;
    if (!tensors.ok()) {
      EXPECT_NE(tensors.error().message.find(why), std::string::npos) << tensors.error().message;
    }
  };
  refused("{", "not a JSON object");
  refused("[]", "not a JSON object");
  refused(R"({"t": 1})", "need dtype");
  refused(R"({"t": {"dtype": "F99", "shape": [1], "data_offsets": [0, 1]}})", "unknown dtype");
  refused(R"({"t": {"dtype": "U8", "shape": [65], "data_offsets": [0, 65]}})", "outside the file");
  refused(R"({"t": {"dtype": "U8", "shape": [4], "data_offsets": [8, 4]}})", "outside the file");
  refused(R"({"t": {"dtype": "F32", "shape": [4], "data_offsets": [0, 4]}})", "needs 16 bytes");
  refused(R"({"t": {"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]}})", "need sizes");
  refused(R"({"t": {"dtype": "U8", "shape": [1.5], "data_offsets": [0, 1]}})", "need sizes");
  refused(R"({"t": {"dtype": "U8", "shape": [281474976710656, 281474976710656],
              "data_offsets": [0, 1]}})",
          "2^48 elements");
  refused(R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
              "b": {"dtype": "U8", "shape": [4], "data_offsets": [3, 7]}})",
          "overlap");
}

TEST(Safetensors, RefusesATruncatedFile) {
  const test::TempDir dir;
  const std::string path = dir.file("t.safetensors");
  std::ofstream(path) << "1234";
  EXPECT_FALSE(SafetensorsFile::open(path).ok());
  const std::uint64_t length = 1000;
  std::ofstream(path).write(reinterpret_cast<const char*>(&length), sizeof length) << "{}";
  const auto file = SafetensorsFile::open(path);
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.error().message.find("header length 1000"), std::string::npos);
}

TEST(Safetensors, NamesAFileThatCannotBeOpened) {
  const auto file = SafetensorsFile::open("/no/such/file.safetensors");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().kind, ErrorKind::environment);
}

}  // namespace
}  // namespace splitwave::model
