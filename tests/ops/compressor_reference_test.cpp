// The exact compressor: against the formula in double, from poisoned state, across cuts and
// restores.
#include "formats/ops_compressor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "formats/bf16.h"
#include "formats/ops_rows.h"
#include "ops/random.h"

namespace splitwave {
namespace {

using testing_ops::normal_bf16;
using testing_ops::normal_floats;
using testing_ops::Random;

struct Sequence {
  CompressorSpec spec;
  std::int64_t tokens = 0;
  int channels = 0;
  std::vector<float> kv, gate, ape, table;
  std::vector<std::uint16_t> norm;
  std::vector<float> state;
  std::vector<std::uint16_t> out;

  Sequence(int ratio, int dims, std::int64_t token_count, std::uint64_t seed)
      : tokens(token_count) {
    Random random(seed);
    spec.ratio = ratio;
    spec.dims = dims;
    spec.target = CompressorTarget::rows;
    channels = compressor_channels(spec);
    kv = normal_floats(random, tokens * channels);
    gate = normal_floats(random, tokens * channels, 3);
    ape = normal_floats(random, static_cast<std::size_t>(ratio) * channels);
    norm = normal_bf16(random, dims);
    table.resize(tokens * 64);
    fill_rope_table(k_v4_compressed_rope, 0, tokens, table.data());
    state.assign(3 * compressor_state_floats(ratio, dims), std::nanf(""));
    out.assign(tokens * dims, 0xABCD);
  }
  // Runs tokens [from, to) as one call on state slot 1.
  void run(std::int64_t from, std::int64_t to) {
    const std::int32_t offsets[2] = {0, static_cast<std::int32_t>(to - from)};
    const std::int32_t start = static_cast<std::int32_t>(from);
    const std::int32_t slot = 1;
    CompressCall call;
    call.sequences = 1;
    call.tokens = to - from;
    call.offsets = offsets;
    call.start = &start;
    call.state_slot = &slot;
    call.kv = kv.data() + from * channels;
    call.gate = gate.data() + from * channels;
    call.token_stride = channels;
    call.ape = ape.data();
    call.norm = norm.data();
    call.table = {table.data(), tokens};
    call.state = state.data();
    call.state_slots = 3;
    call.rows_out = out.data() + from * spec.dims;
    call.rows_out_stride = spec.dims;
    reference_compress(spec, call);
  }
};

void expect_close_to_double(const Sequence& s) {
  const auto want = compress_in_double(s.spec, s.kv.data(), s.gate.data(), s.tokens, s.channels,
                                       s.ape.data(), s.norm.data(), {s.table.data(), s.tokens});
  const int dims = s.spec.dims;
  for (std::int64_t i = 0; i < s.tokens / s.spec.ratio; ++i) {
    double error = 0;
    double size = 0;
    for (int c = 0; c < dims; ++c) {
      const std::int64_t token = (i + 1) * s.spec.ratio - 1;
      const double got = bf16_to_float(s.out[token * dims + c]);
      error += (got - want[i * dims + c]) * (got - want[i * dims + c]);
      size += want[i * dims + c] * want[i * dims + c];
    }
    EXPECT_LT(std::sqrt(error / size), 5e-3) << "entry " << i;  // three roundings to bf16
  }
}

class Compressor : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(Compressor, MatchesTheFormulaFromPoisonedState) {
  const auto [ratio, dims] = GetParam();
  Sequence s(ratio, dims, 3 * 128 + 5, 10);
  s.run(0, s.tokens);
  expect_close_to_double(s);
}

TEST_P(Compressor, WritesBoundaryTokensOnlyAndOnlyItsOwnStateSlot) {
  const auto [ratio, dims] = GetParam();
  Sequence s(ratio, dims, 2 * 128, 11);
  s.run(0, s.tokens);
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    if ((t + 1) % ratio == 0) continue;
    for (int c = 0; c < dims; ++c) ASSERT_EQ(s.out[t * dims + c], 0xABCD) << t;
  }
  const std::int64_t floats = compressor_state_floats(ratio, dims);
  for (std::int64_t i = 0; i < floats; ++i) {
    ASSERT_TRUE(std::isnan(s.state[i]) && std::isnan(s.state[2 * floats + i]));
  }
}

TEST_P(Compressor, APrefillGivesTheBitsOfAsManyDecodeSteps) {
  const auto [ratio, dims] = GetParam();
  Sequence whole(ratio, dims, 300, 12);
  Sequence steps = whole;
  whole.run(0, whole.tokens);
  for (std::int64_t t = 0; t < steps.tokens; ++t) steps.run(t, t + 1);
  EXPECT_EQ(whole.out, steps.out);
}

TEST_P(Compressor, ARestoredStateContinuesWithTheSameBits) {
  const auto [ratio, dims] = GetParam();
  Sequence whole(ratio, dims, 300, 13);
  Sequence cut = whole;
  whole.run(0, 300);
  cut.run(0, 133);
  StateCopyCall copy;
  std::vector<float> buffer(compressor_state_floats(ratio, dims));
  const std::int32_t slot = 1;
  copy.count = 1;
  copy.slots = &slot;
  copy.state = cut.state.data();
  copy.state_slots = 3;
  copy.buffer = buffer.data();
  reference_copy_state(cut.spec, copy);
  std::fill(cut.state.begin(), cut.state.end(), 1e30F);
  copy.direction = StateCopyCall::Direction::restore;
  reference_copy_state(cut.spec, copy);
  cut.run(133, 300);
  EXPECT_EQ(whole.out, cut.out);
}

INSTANTIATE_TEST_SUITE_P(Ratios, Compressor,
                         testing::Values(std::pair{4, 512}, std::pair{4, 128}, std::pair{128, 512},
                                         std::pair{128, 128}));

TEST(CompressorOverlap, DroppingThePreviousBlockMissesTheDoubleFormula) {
  // The planted error: an entry pooled from 4 tokens instead of 8 must not pass the gate above.
  Sequence s(4, 512, 16, 14);
  s.run(0, 16);
  const auto want =
      compress_in_double(s.spec, s.kv.data() + 4 * s.channels, s.gate.data() + 4 * s.channels, 4,
                         s.channels, s.ape.data(), s.norm.data(), {s.table.data() + 4 * 64, 12});
  double error = 0;
  double size = 0;
  for (int c = 0; c < 512; ++c) {
    error += std::pow(bf16_to_float(s.out[7 * 512 + c]) - want[c], 2);
    size += want[c] * want[c];
  }
  EXPECT_GT(std::sqrt(error / size), 0.1);
}

}  // namespace
}  // namespace splitwave
