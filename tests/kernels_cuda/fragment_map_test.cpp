// The permutations of the sm_90a family, by emulating what the hardware does with them: the PTX
// layouts of an m64k16 A operand (one warp's 16 rows) and of ldmatrix, and the bank of every byte.
// Nothing here is computed with the formulas under test but the position of Q and of the results.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>

#include "kernels/cuda/sm90a/config.h"
#include "kernels/cuda/sm90a/fragment_map.h"

namespace splitwave::cuda::sm90a {
namespace {

constexpr int k_tokens = 16;
constexpr int k_dims = 64;
constexpr int k_row_bytes_v4 = sm90a_row_bytes(KvFormat::v4);
constexpr int k_row_bytes_v32 = sm90a_row_bytes(KvFormat::v32);

// Distinct small integers, so that a wrong element cannot go unseen.
int value(int token, int dim) { return token * 97 + dim * 3 + 1; }
int query(int dim) { return dim * dim % 31 + 1; }

// A[row][k] of one k16 step from what each lane holds: eight 16-bit elements, register by register.
using Operand = std::array<std::array<int, 16>, 16>;
void place(Operand& a, int lane, const std::array<int, 8>& held) {
  const int g = lane / 4;
  const int c = lane % 4;
  for (int r = 0; r < 4; ++r) {
    const int row = g + 8 * (r & 1);
    const int k = 2 * c + 8 * (r >> 1);
    a[static_cast<std::size_t>(row)][static_cast<std::size_t>(k)] =
        held[static_cast<std::size_t>(2 * r)];
    a[static_cast<std::size_t>(row)][static_cast<std::size_t>(k + 1)] =
        held[static_cast<std::size_t>(2 * r + 1)];
  }
}

TEST(FragmentMap, TokensOfRowsAreAPermutation) {
  std::set<int> tokens;
  for (int r = 0; r < k_tokens; ++r) tokens.insert(token_of_row(r));
  EXPECT_EQ(tokens.size(), 16U);
  EXPECT_EQ(*tokens.begin(), 0);
  EXPECT_EQ(*tokens.rbegin(), 15);
}

// A thread's two 16-byte loads (tokens of rows g and g + 8) spend four bytes of each a step.
TEST(FragmentMap, Fp8ScoresAreTheDotProductsOfTheirTokens) {
  std::array<int, k_tokens> score{};
  for (int s = 0; s < 4; ++s) {
    Operand a{};
    for (int lane = 0; lane < 32; ++lane) {
      const int low = token_of_row(lane / 4);
      const int high = token_of_row(lane / 4 + 8);
      const int d = lane % 4 * 16 + 4 * s;
      place(a, lane,
            {value(low, d), value(low, d + 1), value(high, d), value(high, d + 1),
             value(low, d + 2), value(low, d + 3), value(high, d + 2), value(high, d + 3)});
    }
    for (int r = 0; r < k_tokens; ++r) {
      for (int k = 0; k < 16; ++k) {
        score[static_cast<std::size_t>(r)] +=
            a[static_cast<std::size_t>(r)][static_cast<std::size_t>(k)] *
            query(fp8_dim_of_slot(s, k));
      }
    }
  }
  for (int r = 0; r < k_tokens; ++r) {
    int expected = 0;
    for (int d = 0; d < k_dims; ++d) expected += value(token_of_row(r), d) * query(d);
    EXPECT_EQ(score[static_cast<std::size_t>(r)], expected) << "row " << r;
  }
}

// From bf16 data a thread takes eight dims of each half of the group: 16-byte loads again.
TEST(FragmentMap, RopeScoresAreTheDotProductsOfTheirTokens) {
  std::array<int, k_tokens> score{};
  for (int s = 0; s < 4; ++s) {
    Operand a{};
    for (int lane = 0; lane < 32; ++lane) {
      const int low = token_of_row(lane / 4);
      const int high = token_of_row(lane / 4 + 8);
      const int d = (s >> 1) * 32 + lane % 4 * 8 + (s & 1) * 4;  // 4 of the load's 8 dims
      place(a, lane,
            {value(low, d), value(low, d + 1), value(high, d), value(high, d + 1),
             value(low, d + 2), value(low, d + 3), value(high, d + 2), value(high, d + 3)});
    }
    for (int r = 0; r < k_tokens; ++r) {
      for (int k = 0; k < 16; ++k) {
        score[static_cast<std::size_t>(r)] +=
            a[static_cast<std::size_t>(r)][static_cast<std::size_t>(k)] *
            query(rope_dim_of_slot(s, k));
      }
    }
  }
  for (int r = 0; r < k_tokens; ++r) {
    int expected = 0;
    for (int d = 0; d < k_dims; ++d) expected += value(token_of_row(r), d) * query(d);
    EXPECT_EQ(score[static_cast<std::size_t>(r)], expected) << "row " << r;
  }
}

// ldmatrix.trans of 8 tokens x 8 units: lane (g, c) gets unit g of tokens 2c and 2c + 1 of the rows
// that lanes name. fp8: a unit is two dims; k of the product is the fragment row of the scores.
TEST(FragmentMap, Fp8ValuesMeetTheProbabilitiesOfTheirTokens) {
  Operand a{};
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4;
    const int c = lane % 4;
    std::array<int, 8> held{};
    for (int half = 0; half < 2; ++half) {
      const int first = token_of_row(2 * c) + 8 * half;
      const int second = token_of_row(2 * c + 1) + 8 * half;
      const auto at = static_cast<std::size_t>(4 * half);
      held[at] = value(first, 2 * g);  // even dims to row g, odd ones to row g + 8
      held[at + 1] = value(second, 2 * g);
      held[at + 2] = value(first, 2 * g + 1);
      held[at + 3] = value(second, 2 * g + 1);
    }
    place(a, lane, held);
  }
  for (int m = 0; m < 16; ++m) {
    for (int k = 0; k < 16; ++k) {
      EXPECT_EQ(a[static_cast<std::size_t>(m)][static_cast<std::size_t>(k)],
                value(token_of_row(k), value_dim_of_row(m)))
          << "row " << m << ", slot " << k;
    }
  }
}

TEST(FragmentMap, RopeValuesMeetTheProbabilitiesOfTheirTokens) {
  Operand a{};
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4;
    const int c = lane % 4;
    std::array<int, 8> held{};
    for (int matrix = 0; matrix < 4; ++matrix) {  // dims 0..7 and 8..15 of tokens 0..7, of 8..15
      const int dim = g + 8 * (matrix & 1);
      const int eight = 8 * (matrix >> 1);
      held[static_cast<std::size_t>(2 * matrix)] = value(token_of_row(2 * c) + eight, dim);
      held[static_cast<std::size_t>(2 * matrix + 1)] = value(token_of_row(2 * c + 1) + eight, dim);
    }
    place(a, lane, held);
  }
  for (int m = 0; m < 16; ++m) {
    for (int k = 0; k < 16; ++k) {
      EXPECT_EQ(a[static_cast<std::size_t>(m)][static_cast<std::size_t>(k)],
                value(token_of_row(k), rope_value_dim_of_row(m)))
          << "row " << m << ", slot " << k;
    }
  }
}

// A 16-byte access is served a quarter warp at a time, an 8x8 matrix load eight rows at a time:
// each must touch 32 different banks.
TEST(FragmentMap, NoBankConflicts) {
  for (const int row_bytes : {k_row_bytes_v4, k_row_bytes_v32}) {
    for (int quarter = 0; quarter < 4; ++quarter) {
      std::set<int> groups;
      for (int i = 0; i < 8; ++i) {
        const int lane = quarter * 8 + i;
        groups.insert((token_of_row(lane / 4) * row_bytes + lane % 4 * 16) / 16 % 8);
      }
      EXPECT_EQ(groups.size(), 8U) << "QK, row bytes " << row_bytes << ", quarter " << quarter;
    }
    std::set<int> groups;
    for (int r = 0; r < 8; ++r) groups.insert(token_of_row(r) * row_bytes / 16 % 8);
    EXPECT_EQ(groups.size(), 8U) << "PV, row bytes " << row_bytes;
    EXPECT_EQ(row_bytes % 16, 0);
  }
}

// ---- V3.2 values: code * scale, rounded to bf16 once -------------------------------------------

double code_value(unsigned code) {
  const int exponent = static_cast<int>(code >> 3) & 15;
  const int mantissa = static_cast<int>(code) & 7;
  const double v =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (code & 0x80U) != 0 ? -v : v;
}
std::uint32_t bits_of(float v) {
  std::uint32_t b = 0;
  std::memcpy(&b, &v, 4);
  return b;
}
float float_of(std::uint32_t b) {
  float v = 0;
  std::memcpy(&v, &b, 4);
  return v;
}
// One rounding of a double to the nearest bf16, ties to even; normal range.
std::uint32_t nearest_bf16(double v) {
  int exponent = 0;
  std::frexp(v, &exponent);
  const double unit = std::ldexp(1.0, exponent - 8);
  return bits_of(static_cast<float>(std::nearbyint(v / unit) * unit)) >> 16;
}
// What cvt.rn.bf16.f32 does.
std::uint32_t nearest_bf16_of_float(std::uint32_t b) {
  return (b + 0x7FFF + ((b >> 16) & 1)) >> 16;
}

// The code by the rule, against one rounding of the exact product; whether two roundings differ.
bool check_product(unsigned code, std::uint32_t scale) {
  const double exact = code_value(code) * static_cast<double>(float_of(scale));  // 28 bits
  float cut = static_cast<float>(exact);
  if (std::fabs(static_cast<double>(cut)) > std::fabs(exact)) cut = std::nextafter(cut, 0.0F);
  const std::uint32_t made = nearest_bf16_of_float(bits_of(cut) | sticky_bit(scale));
  EXPECT_EQ(made, nearest_bf16(exact)) << "code " << code << ", scale bits " << scale;
  return nearest_bf16_of_float(bits_of(static_cast<float>(exact))) != nearest_bf16(exact);
}

TEST(StickyBit, MakesACutProductRoundOnce) {
  std::mt19937 random(11);
  // Mantissas of every length: the rule turns on the scale's significant bits.
  for (int trailing = 0; trailing <= 23; ++trailing) {
    for (int i = 0; i < 2000; ++i) {
      const std::uint32_t mantissa = (random() & 0x7FFFFFU) >> trailing << trailing;
      const unsigned code = random() & 0xFFU;
      if ((code & 0x7FU) == 0x7FU || (code & 0x7FU) == 0) continue;
      check_product(code, ((100U + random() % 40U) << 23) | mantissa);
    }
  }
  // Products next to a tie between two bf16 numbers, where rounding twice goes wrong.
  int twice_differs = 0;
  for (unsigned tie = 257; tie < 512; tie += 2) {
    for (const unsigned significand : {9U, 11U, 13U, 15U}) {
      const unsigned code = (7U << 3) | (significand - 8U);  // significand / 8
      const auto scale = static_cast<float>(tie / 32.0 / significand);
      for (const float near : {std::nextafter(scale, 0.0F), scale, std::nextafter(scale, 1e9F)})
        twice_differs += check_product(code, bits_of(near)) ? 1 : 0;
    }
  }
  EXPECT_GT(twice_differs, 0) << "the cases do not reach what the bit is for";
}

}  // namespace
}  // namespace splitwave::cuda::sm90a
