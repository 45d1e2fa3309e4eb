// Page layouts byte by byte, quantisation by hand, and round trips over random geometries.
#include "formats/kv_row.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "formats/bf16.h"
#include "formats/e8m0.h"
#include "formats/fp8.h"

namespace splitwave {
namespace {

// A row in which every byte says where it belongs.
KvRow numbered_row() {
  KvRow row;
  for (std::size_t i = 0; i < row.codes.size(); ++i)
    row.codes[i] = static_cast<std::uint8_t>(i * 7);
  for (std::size_t i = 0; i < 4; ++i) row.scales_f32[i] = static_cast<float>(i) + 0.3F;
  for (std::size_t i = 0; i < 7; ++i) row.scales_e8m0[i] = static_cast<std::uint8_t>(100 + i);
  for (std::size_t i = 0; i < 64; ++i) row.rope[i] = static_cast<std::uint16_t>(0x4000 + i);
  return row;
}

struct Pool {
  std::vector<std::uint8_t> bytes;
  MutableCacheView view;
  Pool(std::int64_t pages, int page_size, std::int64_t stride, std::uint8_t fill)
      : bytes(static_cast<std::size_t>(pages * stride), fill),
        view{bytes.data(), pages, page_size, stride} {}
};

template <class T>
T load(const Pool& pool, std::size_t at) {
  T value;
  std::memcpy(&value, pool.bytes.data() + at, sizeof value);
  return value;
}

TEST(PageLayout, PutsV4DataRowsFirstAndScaleRowsAtTheEndOfThePage) {
  // 64 tokens a page: 36,864 bytes of data rows, 512 of scale rows, padded to 37,440 as vLLM does.
  Pool pool(3, 64, 37440, 0xEE);
  pack_row(KvFormat::v4, numbered_row(), pool.view, 2 * 64 + 5);
  EXPECT_EQ(pool.bytes[77760 + 0], 0);  // 2 * 37440 + 5 * 576 = 77760
  EXPECT_EQ(pool.bytes[77760 + 447], (447 * 7) & 0xFF);
  EXPECT_EQ(load<std::uint16_t>(pool, 78208), 0x4000);  // 77760 + 448
  EXPECT_EQ(load<std::uint16_t>(pool, 78208 + 126), 0x403F);
  EXPECT_EQ(pool.bytes[111784], 100);  // 2 * 37440 + 64 * 576 + 5 * 8 = 111784
  EXPECT_EQ(pool.bytes[111790], 106);
  EXPECT_EQ(pool.bytes[111791], 0);  // the pad byte
  EXPECT_EQ(pool.bytes[77759], 0xEE);
  EXPECT_EQ(pool.bytes[78336], 0xEE);  // the next data row
  EXPECT_EQ(pool.bytes[111792], 0xEE);
}

TEST(PageLayout, PutsV32RowsOneAfterTheOther) {
  Pool pool(2, 61, 61 * 656 + 24, 0xEE);
  pack_row(KvFormat::v32, numbered_row(), pool.view, 61 + 60);
  EXPECT_EQ(pool.bytes[79400 + 3], 21);  // 40040 + 60 * 656 = 79400
  EXPECT_EQ(pool.bytes[79400 + 511], (511 * 7) & 0xFF);
  EXPECT_EQ(load<float>(pool, 79912), 0.3F);  // + 512
  EXPECT_EQ(load<float>(pool, 79924), 3.3F);
  EXPECT_EQ(load<std::uint16_t>(pool, 79928), 0x4000);  // + 528
  EXPECT_EQ(load<std::uint16_t>(pool, 80054), 0x403F);
  EXPECT_EQ(pool.bytes[80056], 0xEE);  // the stride's pad
  EXPECT_EQ(pool.bytes[79399], 0xEE);
}

TEST(PageLayout, ReproducesTheAddressesOfServingStacks) {
  // FlashMLA and vLLM: 256 tokens at stride 149,760 and 2 tokens at stride 1,728.
  EXPECT_EQ(slot_offsets(KvFormat::v4, 256, 149760, 256 * 3 + 255),
            (SlotOffsets{596160, 598776, 596608}));
  EXPECT_EQ(slot_offsets(KvFormat::v4, 2, 1728, 7), (SlotOffsets{5760, 6344, 6208}));
  EXPECT_EQ(slot_offsets(KvFormat::v4, 1, 584, 9), (SlotOffsets{5256, 5832, 5704}));
  // Past 2^31 and 2^32 bytes.
  EXPECT_EQ(slot_offsets(KvFormat::v4, 64, 37440, 64 * 200000LL),
            (SlotOffsets{7488000000, 7488036864, 7488000448}));
  EXPECT_EQ(slot_offsets(KvFormat::v32, 64, 41984, 2147483647),
            (SlotOffsets{1408749272432, 1408749272944, 1408749272960}));
}

TEST(PageLayout, CallsASlotValidOnlyInsideThePool) {
  const CacheView cache{nullptr, 3, 53, 53 * 584};
  EXPECT_TRUE(is_valid_slot(cache, 0));
  EXPECT_TRUE(is_valid_slot(cache, 158));
  EXPECT_FALSE(is_valid_slot(cache, 159));
  EXPECT_FALSE(is_valid_slot(cache, -1));
  EXPECT_FALSE(is_valid_slot(cache, std::numeric_limits<std::int32_t>::min()));
  EXPECT_FALSE(is_valid_slot(CacheView{nullptr, 0, 1, 584}, 0));
  const CacheView endless{nullptr, std::numeric_limits<std::int64_t>::max(), 576, 576 * 584};
  EXPECT_TRUE(is_valid_slot(endless, std::numeric_limits<std::int32_t>::max()));
}

struct Geometry {
  KvFormat format;
  int page_size;
  std::int64_t pages, stride;
};
Geometry any_geometry() {
  Geometry g;
  g.format = *rc::gen::element(KvFormat::v32, KvFormat::v4);
  g.page_size = *rc::gen::inRange(1, 80);
  g.pages = *rc::gen::inRange(1, 6);
  g.stride = page_bytes(g.format, g.page_size) + 8 * *rc::gen::inRange(0, 80);
  return g;
}

RC_GTEST_PROP(PageLayoutProperty, UnpackGivesWhatPackWroteAndNothingElseMoved, ()) {
  const Geometry g = any_geometry();
  Pool pool(g.pages, g.page_size, g.stride, 0xA7);
  const std::int64_t slot = *rc::gen::inRange<std::int64_t>(0, g.pages * g.page_size);
  KvRow row;
  for (auto& c : row.codes) c = *rc::gen::arbitrary<std::uint8_t>();
  for (auto& s : row.scales_f32) s = *rc::gen::arbitrary<float>();
  for (auto& s : row.scales_e8m0) s = *rc::gen::arbitrary<std::uint8_t>();
  for (auto& r : row.rope) r = *rc::gen::arbitrary<std::uint16_t>();
  const std::vector<std::uint8_t> before = pool.bytes;
  pack_row(g.format, row, pool.view, slot);
  const KvRow back = unpack_row(g.format, pool.view.view(), slot);
  const std::size_t codes = g.format == KvFormat::v32 ? 512 : 448;
  RC_ASSERT(std::memcmp(back.codes.data(), row.codes.data(), codes) == 0);
  RC_ASSERT(back.rope == row.rope);
  if (g.format == KvFormat::v32) {
    RC_ASSERT(std::memcmp(back.scales_f32.data(), row.scales_f32.data(), 16) == 0);
  } else {
    RC_ASSERT(back.scales_e8m0 == row.scales_e8m0);
  }
  const SlotOffsets at = slot_offsets(g.format, g.page_size, g.stride, slot);
  const std::int64_t scale_bytes = g.format == KvFormat::v32 ? 16 : 8;
  for (std::size_t b = 0; b < before.size(); ++b) {
    const auto i = static_cast<std::int64_t>(b);
    const bool is_own = (i >= at.codes && i < at.codes + static_cast<std::int64_t>(codes)) ||
                        (i >= at.scales && i < at.scales + scale_bytes) ||
                        (i >= at.rope && i < at.rope + 128);
    if (!is_own) RC_ASSERT(pool.bytes[b] == before[b]);
  }
}

RC_GTEST_PROP(PageLayoutProperty, NoTwoTokensShareAByteAndNoneLeavesItsPage, ()) {
  const Geometry g = any_geometry();
  std::vector<int> owners(static_cast<std::size_t>(g.pages * g.stride), 0);
  const auto claim = [&](std::int64_t first, std::int64_t count, std::int64_t page) {
    RC_ASSERT(first >= page * g.stride);
    RC_ASSERT(first + count <= page * g.stride + page_bytes(g.format, g.page_size));
    for (std::int64_t i = first; i < first + count; ++i) {
      RC_ASSERT(++owners[static_cast<std::size_t>(i)] == 1);
    }
  };
  const bool is_v32 = g.format == KvFormat::v32;
  for (std::int64_t slot = 0; slot < g.pages * g.page_size; ++slot) {
    const SlotOffsets at = slot_offsets(g.format, g.page_size, g.stride, slot);
    claim(at.codes, is_v32 ? 512 : 448, slot / g.page_size);
    claim(at.scales, is_v32 ? 16 : 8, slot / g.page_size);
    claim(at.rope, 128, slot / g.page_size);
  }
}

RC_GTEST_PROP(ReadRow, RefusesOrStaysInBoundsForAnyGeometry, ()) {
  // Under ASan an access outside the vector aborts.
  const auto format = *rc::gen::element(KvFormat::v32, KvFormat::v4);
  const std::vector<std::uint8_t> bytes(static_cast<std::size_t>(*rc::gen::inRange(0, 4000)), 0x11);
  const CacheView cache{bytes.data(), *rc::gen::inRange<std::int64_t>(-2, 8),
                        *rc::gen::inRange(-1, 5), 8 * *rc::gen::inRange<std::int64_t>(-1, 400)};
  const auto slot = *rc::gen::inRange<std::int64_t>(-3, 40);
  const auto row = read_row(format, cache, static_cast<std::int64_t>(bytes.size()), slot);
  if (!row.ok()) return;
  RC_ASSERT(slot >= 0 && slot < cache.pages * cache.page_size);
  RC_ASSERT(row.value().codes[0] == 0x11);
}

TEST(ReadRow, NamesTheFieldTheValueAndWhatWouldWork) {
  const std::vector<std::uint8_t> bytes(2 * 584);
  const auto message = [&](CacheView cache, std::int64_t slot) {
    cache.base = bytes.data();
    const auto row = read_row(KvFormat::v4, cache, static_cast<std::int64_t>(bytes.size()), slot);
    return row.ok() ? std::string("ok") : row.error().message;
  };
  EXPECT_EQ(message({nullptr, 2, 1, 584}, 1), "ok");
  EXPECT_EQ(message({nullptr, 1, 2, 1728}, 1), "ok");  // the last page needs no stride
  EXPECT_EQ(message({nullptr, 2, 0, 584}, 1), "page_size is 0; it must be at least 1");
  EXPECT_EQ(message({nullptr, 2, 1, 580}, 1),
            "page_stride_bytes is 580; it must be a multiple of 8 and at least 584, the bytes of a "
            "page of 1 tokens");
  EXPECT_EQ(message({nullptr, 3, 1, 584}, 1),
            "the cache holds 1168 bytes, too few for 3 pages of 584 bytes at stride 584");
  EXPECT_EQ(message({nullptr, std::numeric_limits<std::int64_t>::max(), 1, 584}, 1),
            "the cache holds 1168 bytes, too few for 9223372036854775807 pages of 584 bytes at "
            "stride 584");
  EXPECT_EQ(message({nullptr, 2, 1, 584}, 2), "slot 2 is outside the pool of 2 pages of 1");
}

std::vector<double> values_of(KvFormat format, const KvRow& row) {
  std::vector<double> values(static_cast<std::size_t>(qk_dims(format)));
  dequantise_row(format, row, values);
  return values;
}

TEST(Quantise, V4ScalesAreTheLeastPowerOfTwoThatHoldsTheGroup) {
  std::vector<float> values(512, 0.0F);
  values[0] = 448.0F;      // group 0: amax / 448 = 1 exactly
  values[64] = -449.0F;    // group 1: just above; bf16 rounds 449 to 448 first
  values[128] = 450.0F;    // group 2: 450 is a bf16, so the scale is 2
  values[192] = 1.0F;      // group 3: 1 / 448 rounds up to 2^-8
  values[256] = 1e-6F;     // group 4: under the floor 1e-4: scale 2^-22
  values[511] = 3.14159F;  // RoPE: bf16 only
  const KvRow row = quantise_row(KvFormat::v4, values);
  EXPECT_EQ(row.scales_e8m0, (std::array<std::uint8_t, 7>{127, 127, 128, 119, 105, 105, 105}));
  EXPECT_EQ(row.codes[0], 0x7E);
  EXPECT_EQ(row.codes[64], 0xFE);
  EXPECT_EQ(row.codes[128], encode_e4m3(225.0F));
  EXPECT_EQ(row.codes[192], encode_e4m3(256.0F));
  EXPECT_EQ(row.codes[256], encode_e4m3(bf16_to_float(float_to_bf16(1e-6F)) * 0x1p22F));
  EXPECT_EQ(row.rope[63], float_to_bf16(3.14159F));
  EXPECT_EQ(values_of(KvFormat::v4, row)[192], 1.0);
}

TEST(Quantise, V32ScalesAreAmaxOver448AsFloat) {
  std::vector<float> values(576, 0.0F);
  values[5] = -3.0F;
  values[200] = 1e-9F;
  const KvRow row = quantise_row(KvFormat::v32, values);
  EXPECT_EQ(row.scales_f32[0], 3.0F / 448.0F);
  EXPECT_EQ(row.scales_f32[1], 1e-4F / 448.0F);
  EXPECT_EQ(row.codes[5], 0xFE);
  EXPECT_EQ(values_of(KvFormat::v32, row)[5],
            bf16_to_float(double_to_bf16(-448.0 * static_cast<double>(3.0F / 448.0F))));
}

TEST(Quantise, KeepsANanToItsOwnDimAndMakesTheGroupOfAnInfNan) {
  for (const KvFormat format : {KvFormat::v32, KvFormat::v4}) {
    std::vector<float> values(static_cast<std::size_t>(qk_dims(format)), 1.0F);
    values[3] = std::numeric_limits<float>::quiet_NaN();
    values[300] = std::numeric_limits<float>::infinity();
    const std::vector<double> back = values_of(format, quantise_row(format, values));
    const std::size_t group = format == KvFormat::v32 ? 128 : 64;
    for (std::size_t i = 0; i < back.size(); ++i) {
      const bool is_nan = i == 3 || i / group == 300 / group;
      EXPECT_EQ(std::isnan(back[i]), is_nan) << name_of(format) << " dim " << i;
    }
  }
}

TEST(Dequantise, V32RoundsCodeTimesScaleOnce) {
  // Scales chosen so that code * scale falls within half a float step of a bf16 midpoint: rounding
  // to float first makes a tie of it, and a tie may go the wrong way.
  KvRow row;
  int twice_differs = 0;
  for (int midpoint = 257; midpoint < 512; midpoint += 2) {
    for (int significand = 9; significand < 16; significand += 2) {
      const auto code = static_cast<std::uint8_t>(0x50 | (significand - 8));
      ASSERT_EQ(decode_e4m3(code), static_cast<float>(significand));
      const float scale = static_cast<float>(midpoint) / static_cast<float>(significand);
      row.codes[0] = code;
      row.scales_f32[0] = scale;
      const double exact = static_cast<double>(significand) * scale;
      const double got = values_of(KvFormat::v32, row)[0];
      // The two bf16 around it are the even integers next to the odd midpoint (both below 512).
      const double want = exact < midpoint              ? midpoint - 1
                          : exact > midpoint            ? midpoint + 1
                          : (midpoint - 1) / 2 % 2 == 0 ? midpoint - 1
                                                        : midpoint + 1;
      ASSERT_EQ(got, want) << significand << " * " << scale;
      if (static_cast<double>(bf16_to_float(float_to_bf16(static_cast<float>(exact)))) != got) {
        ++twice_differs;
      }
    }
  }
  EXPECT_GT(twice_differs, 20) << "the scales no longer tell one rounding from two";
}

TEST(Dequantise, V4ValuesAreExactForEveryCodeAndScale) {
  KvRow row;
  for (int e = 0; e < 255; ++e) {
    row.scales_e8m0.fill(static_cast<std::uint8_t>(e));
    for (std::size_t c = 0; c < 448; ++c) row.codes[c] = static_cast<std::uint8_t>(c % 256);
    const std::vector<double> values = values_of(KvFormat::v4, row);
    for (std::size_t c = 0; c < 256; ++c) {
      if (is_nan_e4m3(row.codes[c])) {
        EXPECT_TRUE(std::isnan(values[c]));
      } else {
        EXPECT_EQ(values[c], std::ldexp(static_cast<double>(decode_e4m3(row.codes[c])), e - 127));
      }
    }
  }
}

RC_GTEST_PROP(QuantiseProperty, IsWithinOneCodeStepOfTheValue, ()) {
  const auto format = *rc::gen::element(KvFormat::v32, KvFormat::v4);
  const int exponent = *rc::gen::inRange(-8, 9);
  std::vector<float> values(static_cast<std::size_t>(qk_dims(format)));
  for (auto& v : values) {
    v = std::ldexp(static_cast<float>(*rc::gen::inRange(-1000, 1001)) / 1000.0F, exponent);
  }
  const KvRow row = quantise_row(format, values);
  const std::vector<double> back = values_of(format, row);
  const std::size_t nope = format == KvFormat::v32 ? 512 : 448;
  const std::size_t group = format == KvFormat::v32 ? 128 : 64;
  for (std::size_t i = 0; i < nope; ++i) {
    const double scale = format == KvFormat::v32
                             ? static_cast<double>(row.scales_f32[i / group])
                             : static_cast<double>(decode_e8m0(row.scales_e8m0[i / group]));
    // Half a step of a 4-bit significand, or half the smallest step; bf16 rounds on both sides.
    const double value = values[i];
    const double allowed =
        std::max(std::fabs(value) / 16, scale * 0x1p-10) + std::fabs(value) / 128;
    RC_ASSERT(std::fabs(back[i] - value) <= allowed);
  }
  for (std::size_t i = 0; i < 64; ++i) RC_ASSERT(row.rope[i] == float_to_bf16(values[nope + i]));
}

}  // namespace
}  // namespace splitwave
