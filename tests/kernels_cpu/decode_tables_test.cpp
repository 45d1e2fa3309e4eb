// The kernel tables of this build against the double reference and against each other: tables of
// one arithmetic are bitwise equal.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "formats/compare.h"
#include "formats/reference.h"
#include "formats/synthetic.h"
#include "kernels/cpu/decode_engine.h"
#include "kernels/cpu/decode_kernels.h"

namespace splitwave::cpu {
namespace {

SyntheticOptions options_of(KvFormat format, int heads) {
  SyntheticOptions options;
  options.spec.format = format;
  options.spec.heads = heads;
  options.spec.main_width = 33;
  options.spec.extra_width = 70;
  options.rows = 2;
  options.main_cache.page_size = 1;
  options.extra_list.invalid = InvalidKind::scattered;
  options.sink = SinkKind::finite;
  options.scores = ScoreKind::rising;
  return options;
}

std::vector<std::uint16_t> run_on(const DecodeKernels& table, SyntheticProblem& problem,
                                  int tile_rows) {
  const int heads = problem.spec().heads;
  DecodeEngine engine(problem.spec(), table,
                      {.threads = 1, .heads = heads, .block_heads_max = heads,
                       .tile_rows_max = tile_rows});
  problem.poison_outputs();
  engine.run(problem.call(), {.block_heads = heads, .tile_rows = tile_rows, .chunk_rows = 64,
                              .prefetch = tile_rows});
  EXPECT_EQ(problem.check_outputs(), "");
  std::vector<std::uint16_t> out;
  for (const std::uint8_t byte : problem.buffers().out) out.push_back(byte);
  return out;
}

TEST(DecodeTables, EachAgreesWithTheReference) {
  const KernelList& tables = runnable_kernels();
  ASSERT_GT(tables.count, 0);
  for (int i = 0; i < tables.count; ++i) {
    for (const KvFormat format : {KvFormat::v4, KvFormat::v32}) {
      for (const ScaleKind scales : {ScaleKind::normal, ScaleKind::power_of_two, ScaleKind::wide}) {
        // 7: rests of every block size; 49: a group with three vectors and a rest.
        for (const int heads : {7, 49}) {
          SyntheticOptions options = options_of(format, heads);
          options.scales = scales;
          SyntheticProblem problem(options);
          (void)run_on(*tables.tables[i], problem, 24);
          const Comparison comparison = compare_decode(
              options.spec, problem.call(), reference_decode(options.spec, problem.call()));
          EXPECT_TRUE(comparison.ok)
              << tables.tables[i]->isa << ", " << name_of(format) << ", " << heads
              << " heads, scales " << static_cast<int>(scales) << ": " << comparison.failure;
        }
      }
    }
  }
}

TEST(DecodeTables, TablesOfOneArithmeticAreBitwiseEqual) {
  const KernelList& tables = runnable_kernels();
  int compared = 0;
  for (const KvFormat format : {KvFormat::v4, KvFormat::v32}) {
    for (const int heads : {1, 16, 50, 64}) {
      SyntheticProblem problem(options_of(format, heads));
      for (const int tile_rows : {8, 23, 64}) {
        std::map<std::string, std::vector<std::uint16_t>> first;
        for (int i = 0; i < tables.count; ++i) {
          const DecodeKernels& table = *tables.tables[i];
          const auto got = run_on(table, problem, tile_rows);
          const auto [held, is_new] = first.emplace(table.arithmetic, got);
          compared += is_new ? 0 : 1;
          ASSERT_TRUE(held->second == got)
              << table.isa << ", " << name_of(format) << ", " << heads << " heads, tile "
              << tile_rows;
        }
      }
    }
  }
  if (compared == 0) GTEST_SKIP() << "this processor runs one table of each arithmetic only";
}

}  // namespace
}  // namespace splitwave::cpu
