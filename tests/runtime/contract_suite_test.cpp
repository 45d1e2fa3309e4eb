// The contract suite judged: its cells are distinct and cover what they claim, a perfect backend
// passes all of them, and each planted fault is noticed by the check that is there for it.
#include "runtime/contract_suite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "formats/index_list.h"
#include "runtime/faulty_executor.h"
#include "runtime/suite_executors.h"
#include "runtime/suite_registry.h"

namespace splitwave {
namespace {

const std::vector<ContractCell>& full_cells() {
  static const std::vector<ContractCell> cells = decode_cells(cpu_suite_traits(), SuiteSize::full);
  return cells;
}

// The quick suite's cells of some checks that the double reference attends in about a millisecond.
std::vector<ContractCell> small_cells(std::initializer_list<CellCheck> checks) {
  constexpr int k_work_max_accuracy = 1500;  // head x key; there are many
  constexpr int k_work_max = 5000;
  static const std::vector<ContractCell> quick = decode_cells(cpu_suite_traits(), SuiteSize::quick);
  std::vector<ContractCell> small;
  for (const ContractCell& c : quick) {
    if (std::ranges::find(checks, c.check) == checks.end()) continue;
    const ProblemSpec& s = c.problem.spec;
    const int work = c.problem.rows * s.heads * (s.main_width + s.extra_width);
    const int most = c.check == CellCheck::accuracy ? k_work_max_accuracy : k_work_max;
    if (work <= most) small.push_back(c);
  }
  return small;
}

SuiteResult run_small(Fault fault) {
  const std::vector<ContractCell> cells = small_cells({fault.seen_by});
  FaultyExecutor executor(std::move(fault));
  Expected<SuiteResult> result = run_cells(cells, executor, {.threads = 2});
  EXPECT_TRUE(result.ok());
  return *result;
}

TEST(ContractCells, AreDistinctAndAtLeastThreeThousandInTheFullSuite) {
  EXPECT_GE(full_cells().size(), 3000U);
  EXPECT_TRUE(check_distinct(full_cells()).ok());
  std::vector<ContractCell> twice = {full_cells()[5], full_cells()[6], full_cells()[5]};
  ASSERT_FALSE(check_distinct(twice).ok());
  EXPECT_NE(check_distinct(twice).error().message.find(key_of(twice[0])), std::string::npos);
}

TEST(ContractCells, HaveKeysThatMoveWithEveryDimensionAndNotWithTheSeed) {
  ContractCell a = full_cells().front();
  ContractCell b = a;
  b.problem.seed += 1;
  EXPECT_EQ(key_of(a), key_of(b));
  b.problem.extra_cache.page_size += 1;
  EXPECT_NE(key_of(a), key_of(b));
  EXPECT_EQ(key_of(ContractCell{}), "accuracy");
}

TEST(ContractCells, HoldEveryValueThatTheContractNames) {
  std::map<std::string, std::set<std::string>> values;
  for (const ContractCell& c : full_cells()) {
    for (const CellDimension& d : dimensions_of(c)) values[std::string(d.name)].insert(d.value);
  }
  for (int heads = 1; heads <= 128; ++heads) {
    EXPECT_TRUE(values["heads"].contains(std::to_string(heads))) << heads;
  }
  for (const char* width : {"0", "1", "133", "192", "640", "1152", "2048", "4096"}) {
    EXPECT_TRUE(values["main_width"].contains(width)) << width;
  }
  for (const char* name : {"main_page_size", "extra_page_size"}) {
    for (const char* size : {"1", "2", "32", "53", "61", "64", "69", "128", "256", "576"}) {
      EXPECT_TRUE(values[name].contains(size)) << name << " " << size;
    }
  }
  for (const char* name : {"main_lengths", "extra_lengths"}) {
    for (const char* kind : {"none", "zero", "full", "ragged", "negative", "beyond"}) {
      EXPECT_TRUE(values[name].contains(kind)) << name << " " << kind;
    }
  }
  for (int rows = 0; rows <= 96; ++rows) {
    EXPECT_TRUE(rows == 0 || values["rows"].contains(std::to_string(rows))) << rows;
  }
}

TEST(ContractCells, CoverEveryPairOfTheCoveredDimensions) {
  // Spot checks of the covering by name; the generator itself aborts on an uncovered pair.
  const auto has_pair = [&](const char* a, const char* va, const char* b, const char* vb) {
    return std::ranges::any_of(full_cells(), [&](const ContractCell& c) {
      int found = 0;
      for (const CellDimension& d : dimensions_of(c)) {
        found += (d.name == a && d.value == va) || (d.name == b && d.value == vb) ? 1 : 0;
      }
      return found == 2 && c.family == "pairs";
    });
  };
  EXPECT_TRUE(has_pair("main_width", "4096", "heads", "128"));
  EXPECT_TRUE(has_pair("extra_page_size", "53", "main_page_size", "576"));
  EXPECT_TRUE(has_pair("extra_lengths", "negative", "plan", "mode=free,target_ctas=768"));
  EXPECT_TRUE(has_pair("sink", "plus_inf", "scores", "falling"));
  EXPECT_TRUE(has_pair("operands", "f16", "format", "v32"));
}

// docs/contract.md maps every field report to families of cells: each family must exist.
TEST(ContractCells, HoldEveryFamilyThatTheFieldReportTableNames) {
  std::ifstream file(SPLITWAVE_SOURCE_DIR "/docs/contract.md");
  ASSERT_TRUE(file.is_open());
  std::set<std::string> families;
  for (const ContractCell& c : full_cells()) families.insert(c.family);
  std::set<int> reports;
  std::string line;
  while (std::getline(file, line)) {
    int report = 0;
    if (std::sscanf(line.c_str(), "| %d |", &report) != 1) continue;
    reports.insert(report);
    // Families are the words in backticks of the last column.
    std::size_t at = line.rfind("| ", line.size() - 3);
    while ((at = line.find('`', at)) != std::string::npos) {
      const std::size_t end = line.find('`', at + 1);
      const std::string name = line.substr(at + 1, end - at - 1);
      EXPECT_TRUE(families.contains(name) || name.find('/') != std::string::npos)
          << "report " << report << " names '" << name << "', which is no family and no file";
      at = end + 1;
    }
  }
  for (int report = 1; report <= 34; ++report) EXPECT_TRUE(reports.contains(report)) << report;
}

TEST(ContractSuite, PassesAPerfectBackend) {
  const std::vector<ContractCell> cells = small_cells(
      {CellCheck::accuracy, CellCheck::alone, CellCheck::identical, CellCheck::neighbours,
       CellCheck::placed, CellCheck::paged, CellCheck::poisoned, CellCheck::repeated,
       CellCheck::fewer_heads, CellCheck::plan, CellCheck::threads, CellCheck::rearranged,
       CellCheck::trimmed, CellCheck::declared, CellCheck::shrunk});
  FaultyExecutor perfect({});
  const SuiteResult r = *run_cells(cells, perfect, {.threads = 2});
  EXPECT_EQ(r.cases, static_cast<std::int64_t>(cells.size()));
  EXPECT_EQ(r.failed, 0) << r.failures.front().key << ": " << r.failures.front().reason;
  EXPECT_GT(r.cases, 150);
  EXPECT_GT(r.worst_rel_l2, 1e-4);  // something was compared
  EXPECT_LT(r.worst_rel_l2, 2.5e-3);
  EXPECT_EQ(r.dimensions.at("format"), (std::vector<std::string>{"v32", "v4"}));
}

void replace_slots(FaultContext& c, const std::function<std::int32_t(std::int32_t)>& with) {
  const ProblemSpec& s = c.spec;
  if (s.main_width == 0 || c.call.rows == 0) return;
  for (std::int64_t row = 0; row < c.call.rows; ++row) {
    for (int i = 0; i < s.main_width; ++i) {
      c.slots.push_back(with(list_entry(c.call.main_list, row, i)));
    }
  }
  c.call.main_list.slots = c.slots.data();
  c.call.main_list.row_stride = s.main_width;
}

bool has_nan(const std::vector<double>& values) {
  return std::ranges::any_of(values, [](double v) { return std::isnan(v); });
}

// Faults of the arguments: what a call reads differs from what it was given.
void add_argument_faults(std::vector<Fault>& f) {
  f.push_back({.name = "reads entries past the length", .before = [](FaultContext& c) {
                 if (c.call.main_list.lengths == nullptr) return;
                 c.lengths.assign(static_cast<std::size_t>(c.call.rows), c.spec.main_width);
                 c.call.main_list.lengths = c.lengths.data();
               }});
  f.push_back({.name = "takes a negative other than -1 for slot 0", .before = [](FaultContext& c) {
                 replace_slots(c, [](std::int32_t s) { return s < -1 ? 0 : s; });
               }});
  f.push_back({.name = "wraps a slot beyond the pool", .before = [](FaultContext& c) {
                 const auto pool = static_cast<std::int32_t>(c.call.main_cache.pages *
                                                             c.call.main_cache.page_size);
                 if (pool > 0)
                   replace_slots(c, [pool](std::int32_t s) { return s >= pool ? s % pool : s; });
               }});
  f.push_back({.name = "uses the main cache's page size for the extra cache",
               .before = [](FaultContext& c) {
                 if (c.spec.extra_width == 0 || c.spec.main_width == 0) return;
                 CacheView& e = c.call.extra_cache;
                 const std::int64_t bytes =
                     (e.pages - 1) * e.page_stride_bytes + page_bytes(c.spec.format, e.page_size);
                 e.page_size = c.call.main_cache.page_size;
                 e.page_stride_bytes = c.call.main_cache.page_stride_bytes;
                 const std::int64_t used = page_bytes(c.spec.format, e.page_size);
                 e.pages = bytes < used ? 0 : 1 + (bytes - used) / e.page_stride_bytes;
               }});
  f.push_back({.name = "ignores the page stride", .before = [](FaultContext& c) {
                 c.call.main_cache.page_stride_bytes =
                     page_bytes(c.spec.format, c.call.main_cache.page_size);
               }});
  f.push_back({.name = "ignores the list's row stride",
               .seen_by = CellCheck::rearranged,
               .before = [](FaultContext& c) { c.call.main_list.row_stride = c.spec.main_width; }});
}

// Faults of the values: a result is wrong.
void add_value_faults(std::vector<Fault>& f) {
  f.push_back({.name = "folds the sink into the lse", .after = [](FaultContext& c) {
                 if (c.call.sink == nullptr) return;
                 for (std::size_t i = 0; i < c.result.lse.size(); ++i) {
                   const double sink = c.call.sink[i % static_cast<std::size_t>(c.spec.heads)];
                   if (std::isfinite(sink))
                     c.result.lse[i] = std::log(std::exp(c.result.lse[i]) + std::exp(sink));
                 }
               }});
  f.push_back({.name = "gives the lse in base 2", .after = [](FaultContext& c) {
                 for (double& v : c.result.lse) v /= std::log(2.0);
               }});
  f.push_back({.name = "gives -inf as the lse of an empty row", .after = [](FaultContext& c) {
                 for (double& v : c.result.lse) {
                   if (v == HUGE_VAL) v = -HUGE_VAL;
                 }
               }});
  f.push_back({.name = "gives an empty row one over 512", .after = [](FaultContext& c) {
                 for (std::size_t i = 0; i < c.result.lse.size(); ++i) {
                   if (c.result.lse[i] == HUGE_VAL) c.result.out[i * 512] = 1.0 / 512;
                 }
               }});
  f.push_back({.name = "leaves the last head unwritten when heads is no multiple of 8",
               .at_end = [](const FaultContext& c) {
                 if (c.spec.heads % 8 == 0 || c.call.rows == 0) return;
                 std::fill_n(c.call.out + (c.spec.heads - 1) * c.call.out_head_stride, 512, 0x7FB7);
               }});
  f.push_back({.name = "writes past a row of out", .at_end = [](const FaultContext& c) {
                 const bool has_gap = c.call.out_head_stride >= 520 && c.spec.heads > 1;
                 if (has_gap && c.call.rows > 0) c.call.out[512] = 0;
               }});
  f.push_back({.name = "leaves the RoPE dims out of V4's values", .after = [](FaultContext& c) {
                 if (c.spec.format != KvFormat::v4) return;
                 for (std::size_t i = 0; i < c.result.out.size(); ++i) {
                   if (i % 512 >= 448) c.result.out[i] = 0;
                 }
               }});
}

// Faults of exactness: a row depends on what it must not depend on.
void add_exactness_faults(std::vector<Fault>& f) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  f.push_back({.name = "lets a NaN spread to the whole batch",
               .seen_by = CellCheck::neighbours,
               .after = [nan](FaultContext& c) {
                 if (has_nan(c.result.out)) std::ranges::fill(c.result.out, nan);
               }});
  // One bf16 step somewhere, depending on what it must not depend on.
  const auto nudge = [](FaultContext& c) {
    for (double& v : c.result.out) v *= 1.0 + 0x1p-9;
  };
  f.push_back({.name = "rounds by batch size",
               .seen_by = CellCheck::alone,
               .after = [nudge](FaultContext& c) {
                 if (c.call.rows == 1) nudge(c);
               }});
  f.push_back(
      {.name = "rounds by slot", .seen_by = CellCheck::identical, .after = [](FaultContext& c) {
         const auto row = static_cast<std::size_t>(c.spec.heads) * 512;
         for (std::size_t i = row; i < c.result.out.size(); ++i) c.result.out[i] *= 1.0 + 0x1p-9;
       }});
  f.push_back({.name = "rounds by where the first token lies",
               .seen_by = CellCheck::placed,
               .after = [](FaultContext& c) {
                 const int place = c.call.main_list.slots[0] % 64;
                 for (double& v : c.result.out) v *= 1.0 + place * 0x1p-14;
               }});
  f.push_back({.name = "rounds by page size",
               .seen_by = CellCheck::paged,
               .after = [nudge](FaultContext& c) {
                 if (c.call.main_cache.page_size == 64) nudge(c);
               }});
  f.push_back({.name = "keeps state between calls",
               .seen_by = CellCheck::repeated,
               .after = [nudge](FaultContext& c) {
                 if (c.index > 0) nudge(c);
               }});
  f.push_back({.name = "rounds by head block",
               .seen_by = CellCheck::plan,
               .after = [nudge](FaultContext& c) {
                 if (c.run.plan.find("block_heads=8") != std::string::npos) nudge(c);
               }});
  f.push_back({.name = "rounds by thread count",
               .seen_by = CellCheck::threads,
               .after = [nudge](FaultContext& c) {
                 if (c.run.threads == 3) nudge(c);
               }});
  f.push_back({.name = "rounds by the strides of q",
               .seen_by = CellCheck::rearranged,
               .after = [nudge](FaultContext& c) {
                 if (c.call.q_head_stride != qk_dims(c.spec.format)) nudge(c);
               }});
  f.push_back({.name = "rounds by whether lengths are given",
               .seen_by = CellCheck::trimmed,
               .after = [nudge](FaultContext& c) {
                 if (c.call.main_list.lengths != nullptr) nudge(c);
               }});
  f.push_back({.name = "rounds by the declared rows",
               .seen_by = CellCheck::declared,
               .after = [nudge](FaultContext& c) {
                 if (c.spec.rows_max > 50) nudge(c);
               }});
}

std::vector<Fault> faults() {
  std::vector<Fault> f;
  add_argument_faults(f);
  add_value_faults(f);
  add_exactness_faults(f);
  return f;
}

class PlantedFault : public testing::TestWithParam<Fault> {};
INSTANTIATE_TEST_SUITE_P(Each, PlantedFault, testing::ValuesIn(faults()), [](const auto& p) {
  std::string name = p.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

TEST_P(PlantedFault, IsNoticedByTheCheckThatIsThereForIt) {
  const SuiteResult r = run_small(GetParam());
  EXPECT_GT(r.failed, 0);
  if (GetParam().seen_by == CellCheck::accuracy) {
    EXPECT_LT(r.failed, r.cases) << "a fault this narrow must not fail everything";
  }
  const std::string wanted = name_of(GetParam().seen_by);
  EXPECT_TRUE(std::ranges::any_of(r.failures,
                                  [&](const SuiteFailure& f) { return f.key.starts_with(wanted); }))
      << "no cell of '" << wanted << "' failed";
}

TEST(ContractSuite, NoticesOffsetsComputedIn32Bits) {
  std::vector<ContractCell> far;
  for (const ContractCell& c : full_cells()) {
    if (c.family == "far" && c.problem.main_cache.stride_pad_bytes != 0) far.push_back(c);
  }
  ASSERT_EQ(far.size(), 6U);
  FaultyExecutor perfect({});
  EXPECT_EQ(run_cells(far, perfect, {.threads = 1})->failed, 0);
  FaultyExecutor truncating({.before = [](FaultContext& c) {
    c.call.main_cache.page_stride_bytes =
        static_cast<std::uint32_t>(2 * c.call.main_cache.page_stride_bytes) / 2;
    c.call.main_cache.page_stride_bytes &= (1 << 29) - 1;
  }});
  EXPECT_EQ(run_cells(far, truncating, {.threads = 1})->failed, 6);
}

TEST(ContractSuite, FailsACellThatTheBackendRefuses) {
  class Refusing final : public SuiteExecutor {
    Status run(const SuiteRun&, std::span<const HostCall>) override { return bad_input("no"); }
  } executor;
  std::vector<ContractCell> cells = small_cells({CellCheck::accuracy});
  cells.resize(3);
  const SuiteResult r = *run_cells(cells, executor);
  EXPECT_EQ(r.failed, 3);
  EXPECT_EQ(r.failures[0].reason, "refused: no");
}

TEST(ContractSuite, FailsABackendThatDoesNothing) {
  class Idle final : public SuiteExecutor {
    Status run(const SuiteRun&, std::span<const HostCall>) override { return {}; }
  } executor;
  const SuiteResult r = *run_cells(small_cells({CellCheck::accuracy}), executor);
  EXPECT_GE(r.failed, r.cases - 4);  // but for the cells without rows
}

TEST(SuiteRegistry, KnowsSparseDecode) {
  ASSERT_NE(find_op_suite("sparse_decode"), nullptr);
  EXPECT_EQ(find_op_suite("nonsense"), nullptr);
}

TEST(CpuBackend, PassesTheQuickSuite) {
  const SuiteResult r = *find_op_suite("sparse_decode")->run({});
  for (std::size_t i = 0; i < std::min<std::size_t>(r.failures.size(), 10); ++i) {
    ADD_FAILURE() << r.failures[i].key << "\n  " << r.failures[i].reason;
  }
  EXPECT_EQ(r.failed, 0);
  EXPECT_GT(r.cases, 300);
}

}  // namespace
}  // namespace splitwave
