// Row transforms and quantisers: what the bytes must be, at the edges too.
#include "formats/ops_rows.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "formats/bf16.h"
#include "formats/e8m0.h"
#include "formats/fp4.h"
#include "formats/fp8.h"
#include "ops/random.h"

namespace splitwave {
namespace {

using testing_ops::normal_bf16;
using testing_ops::Random;

TEST(RopeTable, HoldsTheYarnFrequenciesOfTheCompressedLayers) {
  std::vector<float> row(64);
  fill_rope_table(k_v4_compressed_rope, 1, 1, row.data());
  // Pair 0 is fast (never interpolated), pair 31 is slow (divided by 16), pair 20 lies in the ramp
  // between the correction dimensions 15 and 25.
  EXPECT_FLOAT_EQ(row[0], static_cast<float>(std::cos(1.0)));
  EXPECT_FLOAT_EQ(row[32 + 31], static_cast<float>(std::sin(std::pow(160000.0, -62.0 / 64) / 16)));
  const double plain = std::pow(160000.0, -40.0 / 64);
  EXPECT_NEAR(row[32 + 20], std::sin(plain / 16 * 0.5 + plain * 0.5), 1e-9);
}

TEST(RopeTable, WindowLayersUseTheirOwnThetaWithoutYarn) {
  std::vector<float> row(64);
  fill_rope_table(k_v4_window_rope, 3, 1, row.data());
  EXPECT_NEAR(row[32 + 31], std::sin(3 * std::pow(10000.0, -62.0 / 64)), 1e-9);
}

TEST(Rope, RotatesInterleavedPairs) {
  std::vector<float> row(64);
  fill_rope_table(k_v4_window_rope, 1, 1, row.data());
  std::array<std::uint16_t, 64> dims{};
  dims[0] = float_to_bf16(1.0F);  // the pair (1, 0) becomes (cos, sin)
  rotate_rope(dims.data(), row.data());
  EXPECT_EQ(dims[0], float_to_bf16(row[0]));
  EXPECT_EQ(dims[1], float_to_bf16(row[32]));
  for (int i = 2; i < 64; ++i) EXPECT_EQ(dims[i], 0) << i;
}

TEST(Hadamard, SpreadsAUnitVectorEvenlyAndIsItsOwnInverse) {
  std::array<std::uint16_t, 128> dims{};
  dims[5] = float_to_bf16(1.0F);
  rotate_hadamard(dims.data());
  for (int i = 0; i < 128; ++i) {
    const float sign = __builtin_popcount(i & 5) % 2 == 0 ? 1.0F : -1.0F;
    EXPECT_EQ(dims[i], float_to_bf16(sign * 0.08838834764F)) << i;
  }
  rotate_hadamard(dims.data());
  for (int i = 0; i < 128; ++i) EXPECT_NEAR(bf16_to_float(dims[i]), i == 5 ? 1.0F : 0.0F, 4e-3);
}

TEST(V4Row, KeepsEveryValueWithinHalfAStepOfItsBlock) {
  Random random(2);
  for (const double size : {1e-6, 1.0, 3e4}) {
    const auto dims = normal_bf16(random, 512, size);
    std::array<std::uint8_t, 576> data{};
    std::array<std::uint8_t, 8> scales{};
    scales[7] = 0xEE;
    quantise_v4_row(dims.data(), dims.data() + 448, data.data(), scales.data());
    EXPECT_EQ(scales[7], 0);
    EXPECT_EQ(std::memcmp(data.data() + 448, dims.data() + 448, 128), 0);
    for (int i = 0; i < 448; ++i) {
      const float scale = decode_e8m0(scales[i / 64]);
      const float x = bf16_to_float(dims[i]);
      const float step = std::max(std::abs(x) / 16, scale * 0x1p-10F);
      EXPECT_LE(std::abs(decode_e4m3(data[i]) * scale - x), step) << i;
    }
  }
}

TEST(V4Row, ScaleIsTheLeastPowerOfTwoThatHoldsTheBlock) {
  std::array<std::uint16_t, 512> dims{};
  dims[64] = float_to_bf16(448.0F * 8);
  dims[128] = float_to_bf16(450.0F * 8);
  std::array<std::uint8_t, 576> data{};
  std::array<std::uint8_t, 8> scales{};
  quantise_v4_row(dims.data(), dims.data() + 448, data.data(), scales.data());
  EXPECT_EQ(scales[0], 127 - 22);  // all zero: the floor 1e-4
  EXPECT_EQ(scales[1], 127 + 3);
  EXPECT_EQ(scales[2], 127 + 4);
  EXPECT_EQ(data[64], k_e4m3_max_code);
}

TEST(V4Row, ANanOrInfinityPoisonsItsBlockAlone) {
  for (const std::uint16_t bad : {std::uint16_t{0x7FC0}, std::uint16_t{0xFF80}}) {
    std::array<std::uint16_t, 512> dims{};
    dims.fill(float_to_bf16(1.0F));
    dims[70] = bad;
    std::array<std::uint8_t, 576> data{};
    std::array<std::uint8_t, 8> scales{};
    quantise_v4_row(dims.data(), dims.data() + 448, data.data(), scales.data());
    EXPECT_EQ(scales[1], k_e8m0_nan_code);
    EXPECT_EQ(data[64], k_e4m3_nan_code);
    EXPECT_EQ(scales[0], scales[2]);
    EXPECT_FALSE(is_nan_e4m3(data[63]));
    EXPECT_FALSE(is_nan_e4m3(data[128]));
  }
}

TEST(V32Row, OffersExactAndPowerOfTwoScales) {
  std::array<std::uint16_t, 576> dims{};
  dims[0] = float_to_bf16(10.0F);
  dims[575] = float_to_bf16(-2.0F);
  std::array<std::uint8_t, 656> row{};
  float scale = 0;
  quantise_v32_row(dims.data(), dims.data() + 512, ScaleRounding::exact, row.data());
  std::memcpy(&scale, row.data() + 512, 4);
  EXPECT_EQ(scale, 10.0F / 448.0F);
  EXPECT_EQ(row[0], k_e4m3_max_code);
  EXPECT_EQ(row[655], 0xC0);  // -2 in bf16, the last two bytes
  quantise_v32_row(dims.data(), dims.data() + 512, ScaleRounding::power_of_two, row.data());
  std::memcpy(&scale, row.data() + 512, 4);
  EXPECT_EQ(scale, 0x1p-5F);
}

TEST(IndexerRow, Fp4PacksTheEvenDimInTheLowNibbleWithAScalePer32) {
  std::array<std::uint16_t, 128> dims{};
  dims[0] = float_to_bf16(6.0F);
  dims[1] = float_to_bf16(-0.5F);
  dims[32] = float_to_bf16(0x1p10F);
  std::array<std::uint8_t, 64> values{};
  std::array<std::uint8_t, 4> scales{};
  quantise_indexer_row(IndexerFormat::fp4, ScaleRounding::power_of_two, dims.data(), values.data(),
                       scales.data());
  EXPECT_EQ(values[0], pack_e2m1(7, 9));
  EXPECT_EQ(scales[0], 127);
  EXPECT_EQ(scales[1], 127 + 8);   // 1024 / 6 rounds up to 256
  EXPECT_EQ(values[16] & 0xF, 6);  // 4 * 256
  EXPECT_EQ(scales[3], 1);         // the floor
}

TEST(IndexerRow, EveryFormatComesBackWithinItsPrecision) {
  Random random(3);
  const auto dims = normal_bf16(random, 128);
  for (const auto format : {IndexerFormat::fp8, IndexerFormat::fp4, IndexerFormat::bf16}) {
    std::array<std::uint8_t, 256> values{};
    std::array<std::uint8_t, 4> scales{};
    quantise_indexer_row(format, ScaleRounding::exact, dims.data(), values.data(), scales.data());
    std::array<float, 128> back{};
    const float scale = dequantise_indexer_row(format, values.data(), scales.data(), back.data());
    const double tolerance = format == IndexerFormat::bf16  ? 0
                             : format == IndexerFormat::fp8 ? 0.07
                                                            : 0.5;
    for (int i = 0; i < 128; ++i) {
      const float x = bf16_to_float(dims[i]);
      EXPECT_NEAR(back[i] * scale, x, tolerance * std::max(1.0F, std::abs(x))) << name_of(format);
    }
  }
}

TEST(PlanarSlot, StaysRightPastFourGibibytes) {
  const SlotBytes at = planar_slot_bytes(std::int64_t{70'000'000} * 64 + 5, 64, 8448, 128, 4);
  EXPECT_EQ(at.values, std::int64_t{70'000'000} * 8448 + 5 * 128);
  EXPECT_EQ(at.scales, std::int64_t{70'000'000} * 8448 + 64 * 128 + 5 * 4);
}

}  // namespace
}  // namespace splitwave
