// The bf16 kernel. With a software model of vdpbf16ps its layouts and blocks are tested on any
// AVX-512 processor; the instruction itself is compared with the model where the processor has it.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>

#include "formats/compare.h"
#include "formats/reference.h"
#include "formats/synthetic.h"
#include "kernels/cpu/decode_avx512bf16.h"
#include "kernels/cpu/decode_engine.h"
#include "kernels/cpu/decode_kernels.h"

#if defined(__x86_64__)
#include "kernels_cpu/bf16_model.h"
#endif

namespace splitwave::cpu {
namespace {

const DecodeKernels* table_of(const std::string& isa) {
  const KernelList& list = runnable_kernels();
  for (int i = 0; i < list.count; ++i) {
    if (isa == list.tables[i]->isa) return list.tables[i];
  }
  return nullptr;
}

SyntheticOptions options_of(KvFormat format, int heads, int rows) {
  SyntheticOptions options;
  options.spec.format = format;
  options.spec.heads = heads;
  options.spec.main_width = 33;
  options.spec.extra_width = 70;
  options.rows = rows;
  options.main_cache.page_size = 1;
  options.extra_list.invalid = InvalidKind::scattered;
  options.main_list.lengths = LengthKind::ragged;
  options.sink = SinkKind::mixed;
  return options;
}

std::string run_and_compare(const DecodeKernels& table, SyntheticProblem& problem, int tile_rows,
                            int block_heads) {
  const ProblemSpec& spec = problem.spec();
  DecodeEngine engine(spec, table,
                      {.threads = 1,
                       .heads = spec.heads,
                       .block_heads_max = block_heads,
                       .tile_rows_max = tile_rows});
  problem.poison_outputs();
  engine.run(problem.call(), {.block_heads = block_heads,
                              .tile_rows = tile_rows,
                              .chunk_rows = 64,
                              .prefetch = tile_rows});
  const std::string unwritten = problem.check_outputs();
  if (!unwritten.empty()) return unwritten;
  return compare_decode(spec, problem.call(), reference_decode(spec, problem.call())).failure;
}

void expect_within_the_contract(const DecodeKernels& table) {
  for (const KvFormat format : {KvFormat::v4, KvFormat::v32}) {
    for (const int heads : {1, 13, 47, 64, 80}) {
      for (const int tile_rows : {8, 23, 64}) {
        // One token for all entries: the probabilities' roundings do not average out.
        for (const ScaleKind scales : {ScaleKind::normal, ScaleKind::large}) {
          SyntheticOptions options = options_of(format, heads, 2);
          options.scales = scales;
          if (scales == ScaleKind::large) options.sharing = Sharing::single;
          SyntheticProblem problem(options);
          EXPECT_EQ(run_and_compare(table, problem, tile_rows, heads), "")
              << name_of(format) << ", " << heads << " heads, tile " << tile_rows << ", scales "
              << static_cast<int>(scales);
        }
      }
    }
  }
}

TEST(Bf16Dot, ItsBlocksAndLayoutsMeetTheContractWithAModelOfTheInstruction) {
#if defined(__x86_64__)
  const DecodeKernels* fp32 = table_of("avx512");
  if (fp32 == nullptr) GTEST_SKIP() << "this processor has no AVX-512";
  expect_within_the_contract(bf16_model_kernels(*fp32));
#else
  GTEST_SKIP() << "not an x86-64 build";
#endif
}

TEST(Bf16Dot, AHeadsBitsDoNotDependOnTheBlock) {
#if defined(__x86_64__)
  const DecodeKernels* fp32 = table_of("avx512");
  if (fp32 == nullptr) GTEST_SKIP() << "this processor has no AVX-512";
  const DecodeKernels& table = bf16_model_kernels(*fp32);
  SyntheticProblem problem(options_of(KvFormat::v4, 70, 2));
  std::vector<std::uint8_t> first;
  for (const int block_heads : {8, 16, 48, 64, 70}) {
    ASSERT_EQ(run_and_compare(table, problem, 24, block_heads), "") << block_heads;
    const auto out = problem.buffers().out;
    const std::vector<std::uint8_t> got(out.begin(), out.end());
    if (first.empty()) first = got;
    EXPECT_TRUE(got == first) << block_heads;
  }
#else
  GTEST_SKIP() << "not an x86-64 build";
#endif
}

#if defined(__x86_64__)
template <class T>
struct alignas(64) Cells {
  std::array<T, 10 * k_panel_dims> of;
};

// Nine rows (the last without a partner) that hold, a panel a scale code, every e4m3 code.
TEST(Bf16Dot, TheDirectDecoderGivesTheBitsOfTheFp32Decoder) {
  const DecodeKernels* fp32 = table_of("avx512");
  if (fp32 == nullptr) GTEST_SKIP() << "this processor has no AVX-512";
  constexpr int k_rows = 9;
  alignas(64) static std::array<std::uint8_t, (k_rows + 1) * k_raw_row_bytes> raw;
  Cells<float> wide{};
  for (const int lowest_scale : {0, 7, 10, 64, 117, 124, 240, 249}) {
    for (const bool has_nan : {false, true}) {
      for (int t = 0; t < k_rows; ++t) {
        std::uint8_t* const row = raw.data() + t * k_raw_row_bytes;
        for (int i = 0; i < k_v4_data_bytes; ++i) {
          row[i] = static_cast<std::uint8_t>(i + 64 * t);
          if (i < k_v4_nope_dims && !has_nan && (row[i] & 0x7F) == 0x7F) row[i] = 0x80;
        }
        for (int p = 0; p < 7; ++p) {
          row[k_v4_data_bytes + p] = static_cast<std::uint8_t>(lowest_scale + p);
        }
      }
      TileTask task;
      task.row_count = k_rows;
      task.raw = raw.data();
      Cells<float> scratch{};
      task.panel = scratch.of.data();
      for (int p = 0; p < k_value_panels; ++p) {
        fp32->dequantize_panel(task, p, wide.of.data());
        Cells<std::uint16_t> k{};
        Cells<std::uint32_t> v{};
        bf16_model_panel(*fp32, task, p, k.of.data(), v.of.data());
        for (int at = 0; at < k_rows * k_panel_dims; ++at) {
          const int t = at / k_panel_dims;
          const int i = at % k_panel_dims;
          const auto bits = static_cast<std::uint16_t>(
              std::bit_cast<std::uint32_t>(wide.of[static_cast<std::size_t>(at)]) >> 16);
          ASSERT_EQ(k.of[static_cast<std::size_t>(at)], bits)
              << "K, scale code " << lowest_scale + p << ", row " << t << ", dim " << i;
          const std::uint32_t pair = v.of[static_cast<std::size_t>(t / 2 * k_panel_dims + i)];
          ASSERT_EQ(t % 2 == 0 ? pair & 0xFFFFU : pair >> 16, bits)
              << "V, scale code " << lowest_scale + p << ", row " << t << ", dim " << i;
        }
      }
    }
  }
}
#endif

TEST(Bf16Dot, TheInstructionMeetsTheContract) {
  const DecodeKernels* table = table_of("avx512_bf16");
  if (table == nullptr) GTEST_SKIP() << "this processor has no AVX512_BF16";
  expect_within_the_contract(*table);
}

TEST(Bf16Dot, IsListedWithItsOwnArithmetic) {
  const KernelListings& all = all_kernels();
  for (int i = 0; i < all.count; ++i) {
    const bool is_bf16 = std::string(all.items[i].isa) == "avx512_bf16";
    EXPECT_EQ(is_bf16, std::string(all.items[i].arithmetic) == "bf16_dot_split_p");
    EXPECT_EQ(is_bf16 && all.items[i].is_runnable, is_bf16 && has_avx512bf16());
  }
}

}  // namespace
}  // namespace splitwave::cpu
