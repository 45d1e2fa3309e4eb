// A row's bits depend on nothing but the row: not on the batch, its slot, its neighbours, where
// pages lie, how many threads work, or how heads are blocked and rows prefetched.
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "runtime/decode_case.h"

namespace splitwave {
namespace {

using namespace testing_support;

constexpr int k_rows_max = 96;
constexpr std::array k_threads = {1, 2, 3, 8};
constexpr std::array k_hostile = {HostileKind::nan_q,    HostileKind::nan_q_one_head,
                                  HostileKind::inf_q,    HostileKind::huge_q,
                                  HostileKind::nan_code, HostileKind::nan_scale,
                                  HostileKind::nan_rope, HostileKind::huge_keys};

// Chunks of 32 rows: several a row, so that folding is part of what must not change.
PlanOverrides short_chunks() {
  PlanOverrides overrides;
  overrides.chunk_rows = 32;
  overrides.tile_rows = 16;
  return overrides;
}

std::vector<RowBits> rows_alone(const SyntheticOptions& options, int count) {
  Decoder decoder = make_decoder(options.spec, cpu_options(1, short_chunks()));
  std::vector<RowBits> alone;
  for (int id = 0; id < count; ++id) {
    SyntheticOptions one = options;
    one.rows = 1;
    one.row_ids = {id};
    SyntheticProblem problem(one);
    alone.push_back(decode(decoder, problem).front());
  }
  return alone;
}

class Exactness : public testing::TestWithParam<KvFormat> {};

TEST_P(Exactness, ARowAloneEqualsTheRowInEverySlotOfEveryBatchNextToHostileNeighbours) {
  SyntheticOptions options = full_options(GetParam(), 5, 1);
  const std::vector<RowBits> alone = rows_alone(options, k_rows_max);
  std::vector<Decoder> decoders;
  for (const int threads : k_threads) {
    decoders.push_back(make_decoder(options.spec, cpu_options(threads, short_chunks())));
  }
  for (int batch = 1; batch <= k_rows_max; ++batch) {
    options.rows = batch;
    options.placement_seed = static_cast<std::uint64_t>(batch) + 1;  // pages permuted anew
    options.row_ids.resize(static_cast<std::size_t>(batch));
    options.hostile.assign(static_cast<std::size_t>(batch), HostileKind::none);
    for (int slot = 0; slot < batch; ++slot) {
      options.row_ids[static_cast<std::size_t>(slot)] = (slot * 37 + batch) % 97 % k_rows_max;
    }
    // Ids are distinct but for the one that 97 folds onto another: give that slot a spare id.
    std::vector<bool> seen(2 * k_rows_max, false);
    for (int slot = 0; slot < batch; ++slot) {
      std::int64_t& id = options.row_ids[static_cast<std::size_t>(slot)];
      const bool is_hostile = slot % 3 == batch % 3 && batch > 1;
      if (seen[static_cast<std::size_t>(id)] || is_hostile) {
        id = k_rows_max + slot;
        options.hostile[static_cast<std::size_t>(slot)] =
            k_hostile[static_cast<std::size_t>(slot / 3) % k_hostile.size()];
      }
      seen[static_cast<std::size_t>(id)] = true;
    }
    SyntheticProblem problem(options);
    const std::size_t which = static_cast<std::size_t>(batch) % decoders.size();
    const std::vector<RowBits> got = decode(decoders[which], problem);
    for (int slot = 0; slot < batch; ++slot) {
      const std::int64_t id = options.row_ids[static_cast<std::size_t>(slot)];
      if (id >= k_rows_max) continue;  // the hostile ones
      ASSERT_TRUE(got[static_cast<std::size_t>(slot)] == alone[static_cast<std::size_t>(id)])
          << "row " << id << " in slot " << slot << " of " << batch << ", " << k_threads[which]
          << " threads";
    }
  }
}

TEST_P(Exactness, ThreadsNeverChangeBits) {
  // 3 rows: fewer units than threads, so chunks of one row are computed by several workers.
  for (const int rows : {1, 3, 17}) {
    SyntheticProblem problem(full_options(GetParam(), 7, rows));
    std::vector<RowBits> first;
    for (const int threads : k_threads) {
      Decoder decoder = make_decoder(problem.spec(), cpu_options(threads, short_chunks()));
      for (int repeat = 0; repeat < 3; ++repeat) {
        const std::vector<RowBits> got = decode(decoder, problem);
        if (first.empty()) first = got;
        ASSERT_TRUE(got == first) << threads << " threads, " << rows << " rows, run " << repeat;
      }
    }
  }
}

TEST_P(Exactness, HeadBlocksAndPrefetchNeverChangeBits) {
  SyntheticProblem problem(full_options(GetParam(), 100, 2));
  std::vector<RowBits> first;
  for (const int block_heads : {8, 16, 32, 64, 128}) {
    for (const int prefetch : {0, 1, 13, 64, 256}) {
      PlanOverrides overrides = short_chunks();
      overrides.block_heads = block_heads;
      overrides.prefetch = prefetch;
      Decoder decoder = make_decoder(problem.spec(), cpu_options(2, overrides));
      EXPECT_EQ(decoder.plan_for(2).block_heads, block_heads);
      EXPECT_EQ(decoder.plan_for(2).prefetch, prefetch);
      const std::vector<RowBits> got = decode(decoder, problem);
      if (first.empty()) first = got;
      ASSERT_TRUE(got == first) << "block_heads " << block_heads << ", prefetch " << prefetch;
    }
  }
}

TEST_P(Exactness, FewerHeadsGiveTheBitsOfTheFirstHeads) {
  SyntheticProblem problem(full_options(GetParam(), 128, 1));
  Decoder all = make_decoder(problem.spec(), cpu_options(1));
  const RowBits whole = decode(all, problem).front();
  const std::size_t head_cells = k_value_dims + 1;
  for (const int heads : {1, 2, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127}) {
    ProblemSpec spec = problem.spec();
    spec.heads = heads;
    Decoder decoder = make_decoder(spec, cpu_options(2));
    problem.poison_outputs();
    ASSERT_TRUE(decoder.run(problem.call()).ok());
    const RowBits got = row_bits(spec, problem.call(), 0);
    const RowBits start(whole.begin(),
                        whole.begin() + static_cast<std::ptrdiff_t>(head_cells) * heads);
    ASSERT_TRUE(got == start) << heads << " heads";
  }
}

TEST_P(Exactness, TrailingPaddingNeverChangesBits) {
  SyntheticOptions options = full_options(GetParam(), 3, 4);
  options.main_list = {};
  options.extra_list = {};
  SyntheticProblem problem(options);
  Decoder decoder = make_decoder(problem.spec(), cpu_options(2, short_chunks()));
  const std::vector<RowBits> plain = decode(decoder, problem);
  // The same lists, declared wider and padded with invalid entries.
  ProblemSpec wide = problem.spec();
  wide.extra_width += 75;
  std::vector<std::int32_t> padded(static_cast<std::size_t>(4 * wide.extra_width), -1);
  DecodeCall call = problem.call();
  for (int row = 0; row < 4; ++row) {
    const std::int32_t* from = call.extra_list.slots + row * call.extra_list.row_stride;
    std::copy(from, from + problem.spec().extra_width, padded.begin() + row * wide.extra_width);
  }
  call.extra_list.slots = padded.data();
  call.extra_list.row_stride = wide.extra_width;
  Decoder wide_decoder = make_decoder(wide, cpu_options(2, short_chunks()));
  ASSERT_TRUE(wide_decoder.run(call).ok());
  for (int row = 0; row < 4; ++row) {
    EXPECT_TRUE(row_bits(wide, call, row) == plain[static_cast<std::size_t>(row)]) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Exactness, testing::Values(KvFormat::v4, KvFormat::v32),
                         [](const auto& format) { return std::string(name_of(format.param)); });

}  // namespace
}  // namespace splitwave
