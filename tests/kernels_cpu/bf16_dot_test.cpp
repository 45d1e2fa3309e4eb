// The bf16 kernel. With a software model of vdpbf16ps its layouts and blocks are tested on any
// AVX-512 processor; the instruction itself is compared with the model where the processor has it.
#include <gtest/gtest.h>

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
                      {.threads = 1, .heads = spec.heads, .block_heads_max = block_heads,
                       .tile_rows_max = tile_rows});
  problem.poison_outputs();
  engine.run(problem.call(), {.block_heads = block_heads, .tile_rows = tile_rows,
                              .chunk_rows = 64, .prefetch = tile_rows});
  const std::string unwritten = problem.check_outputs();
  if (!unwritten.empty()) return unwritten;
  return compare_decode(spec, problem.call(), reference_decode(spec, problem.call())).failure;
}

void expect_within_the_contract(const DecodeKernels& table) {
  for (const KvFormat format : {KvFormat::v4, KvFormat::v32}) {
    for (const int heads : {1, 13, 47, 64, 80}) {
      for (const int tile_rows : {8, 23, 64}) {
        SyntheticProblem problem(options_of(format, heads, 2));
        EXPECT_EQ(run_and_compare(table, problem, tile_rows, heads), "")
            << name_of(format) << ", " << heads << " heads, tile " << tile_rows;
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

TEST(Bf16Dot, TheInstructionMeetsTheContract) {
  const DecodeKernels* table = table_of("avx512_bf16");
  if (table == nullptr) GTEST_SKIP() << "this processor has no AVX512_BF16";
  expect_within_the_contract(*table);
}

TEST(Bf16Dot, IsListedWithItsOwnArithmetic) {
  const KernelListings& all = all_kernels();
  for (int i = 0; i < all.count; ++i) {
    const bool is_bf16 = std::string(all.items[i].isa) == "avx512_bf16";
    EXPECT_EQ(is_bf16, std::string(all.items[i].arithmetic) == "bf16_dot");
    EXPECT_EQ(is_bf16 && all.items[i].is_runnable, is_bf16 && has_avx512bf16());
  }
}

}  // namespace
}  // namespace splitwave::cpu
